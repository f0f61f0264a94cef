"""S3, and stores that speak its API: a sink whose files appear by one conditional create each."""
