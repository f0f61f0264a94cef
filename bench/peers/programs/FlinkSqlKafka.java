import java.nio.file.Path;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;

/** Flink SQL between two topics: SELECT word, COUNT(*) ... GROUP BY word, a record for every count. */
public class FlinkSqlKafka {
  private static final String SOURCE =
      "CREATE TABLE words (word STRING) WITH ('connector' = 'kafka', 'topic' = '%s',"
          + " 'properties.bootstrap.servers' = '%s', 'scan.startup.mode' = 'earliest-offset',"
          + " 'properties.isolation.level' = 'read_committed', 'format' = 'json')";
  private static final String SINK =
      "CREATE TABLE counts (word STRING, `count` BIGINT, PRIMARY KEY (word) NOT ENFORCED)"
          + " WITH ('connector' = 'upsert-kafka', 'topic' = '%s',"
          + " 'properties.bootstrap.servers' = '%s', 'key.format' = 'raw', 'value.format' = 'json',"
          + " 'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'flink-%s',"
          + " 'properties.transaction.timeout.ms' = '600000', 'properties.linger.ms' = '5',"
          + " 'properties.batch.size' = '1048576', 'properties.compression.type' = 'lz4')";

  public static void main(String[] args) throws Exception {
    Path folder = Path.of(args[0]);
    String servers = args[1], source = args[2], target = args[3];
    Configuration settings = new Configuration();
    settings.setString("parallelism.default", args[4]);
    settings.setString("execution.checkpointing.interval", args[5] + "s");
    settings.setString("execution.checkpointing.dir", folder.resolve("checkpoints").toUri() + "");
    settings.setString("pipeline.object-reuse", "true");
    settings.setString("rest.bind-address", "127.0.0.1");
    settings.setString("rest.bind-port", "0");
    TableEnvironment tables =
        TableEnvironment.create(
            EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(settings).build());
    tables.executeSql(String.format(SOURCE, source, servers));
    tables.executeSql(String.format(SINK, target, servers, target));
    tables
        .executeSql("INSERT INTO counts SELECT word, COUNT(*) FROM words GROUP BY word")
        .await();
  }
}
