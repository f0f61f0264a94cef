"""What connectors do against real servers: Kafka, PostgreSQL and S3, and Kafka beside other engines."""
