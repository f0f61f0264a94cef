import java.io.BufferedReader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.Table;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.types.Row;

/** Flink SQL in one JVM: SELECT word, COUNT(*) ... GROUP BY word, as an upsert stream of counts. */
public class FlinkSqlWords {

  /** Makes row i of the task: each half of the numbers is one split. */
  public static class Words extends RichMapFunction<Long, String> {
    private final String folder;
    private final long rowsPerSplit;
    private final int splits;
    private transient String[] words;
    private transient int[] indices;

    Words(String folder, long rowsPerSplit, int splits) {
      this.folder = folder;
      this.rowsPerSplit = rowsPerSplit;
      this.splits = splits;
    }

    @Override
    public void open(OpenContext context) throws Exception {
      words = Files.readString(Path.of(folder, "words.txt")).split("\n");
      ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(Path.of(folder, "indices.i32")));
      IntBuffer numbers = bytes.order(ByteOrder.LITTLE_ENDIAN).asIntBuffer();
      indices = new int[numbers.remaining()];
      numbers.get(indices);
    }

    @Override
    public String map(Long number) {
      long split = number / rowsPerSplit;
      long start = split * indices.length / splits;
      return words[indices[(int) ((start + number % rowsPerSplit) % indices.length)]];
    }
  }

  /** Keeps the newest count of each word, and notes how many rows were counted when. */
  public static class Counts extends RichMapFunction<Row, Row> {
    static final List<Counts> ALL = new ArrayList<>();
    final Map<String, Long> counts = new HashMap<>();
    volatile long rows;

    @Override
    public void open(OpenContext context) {
      synchronized (ALL) {
        ALL.add(this);
      }
    }

    @Override
    public Row map(Row row) {
      counts.put((String) row.getField(0), (Long) row.getField(1));
      rows++;
      return row;
    }

    static long total() {
      synchronized (ALL) {
        return ALL.stream().mapToLong(c -> c.rows).sum();
      }
    }
  }

  public static void main(String[] args) throws Exception {
    Path folder = Path.of(args[0]);
    long rows = Long.parseLong(args[1]);
    int splits = Integer.parseInt(args[2]);
    StringBuilder marks = new StringBuilder();
    Thread marker = new Thread(() -> watch(marks));
    marker.setDaemon(true);
    marker.start();
    run(folder, rows, splits, Long.parseLong(args[3]));
    marker.interrupt();
    marker.join();
    answer(folder, marks);
    System.exit(0);
  }

  private static void run(Path folder, long rows, int splits, long checkpointMs) throws Exception {
    Configuration settings = new Configuration();
    settings.setString("pipeline.object-reuse", "true");
    settings.setString("execution.checkpointing.dir", folder.resolve("checkpoints").toUri() + "");
    settings.setString("rest.bind-address", "127.0.0.1");
    settings.setString("rest.bind-port", "0");
    StreamExecutionEnvironment env =
        StreamExecutionEnvironment.getExecutionEnvironment(settings);
    env.setParallelism(splits);
    env.enableCheckpointing(checkpointMs);
    StreamTableEnvironment tables = StreamTableEnvironment.create(env);
    DataStream<String> words =
        env.fromSource(
                new NumberSequenceSource(0, rows - 1), WatermarkStrategy.noWatermarks(), "numbers")
            .map(new Words(folder.toString(), rows / splits, splits))
            .returns(Types.STRING);
    tables.createTemporaryView(
        "words", words, Schema.newBuilder().columnByExpression("word", "f0").build());
    Table counts = tables.sqlQuery("SELECT word, COUNT(*) AS n FROM words GROUP BY word");
    Schema schema =
        Schema.newBuilder()
            .column("word", DataTypes.STRING().notNull())
            .column("n", DataTypes.BIGINT().notNull())
            .primaryKey("word")
            .build();
    tables
        .toChangelogStream(counts, schema, ChangelogMode.upsert())
        .map(new Counts())
        .returns(Row.class)
        .sinkTo(new DiscardingSink<>());
    env.execute("words");
  }

  private static void watch(StringBuilder marks) {
    try {
      while (true) {
        mark(marks);
        Thread.sleep(100);
      }
    } catch (InterruptedException ended) {
      mark(marks);
    }
  }

  private static void mark(StringBuilder marks) {
    if (Counts.total() > 0) {
      marks.append(marks.length() == 0 ? "" : ",");
      marks.append("[" + System.nanoTime() / 1e9 + "," + Counts.total() + "]");
    }
  }

  private static void answer(Path folder, StringBuilder marks) throws Exception {
    StringBuilder counts = new StringBuilder();
    for (Counts part : Counts.ALL) {
      for (Map.Entry<String, Long> entry : part.counts.entrySet()) {
        counts.append(counts.length() == 0 ? "" : ",");
        counts.append("\"" + entry.getKey() + "\":" + entry.getValue());
      }
    }
    String text =
        "{\"counts\":{" + counts + "},\"marks\":[" + marks + "],\"emitted\":" + Counts.total() + "}";
    Files.writeString(folder.resolve("answer.json"), text);
  }
}
