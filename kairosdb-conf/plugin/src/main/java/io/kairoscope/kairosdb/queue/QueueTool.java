package io.kairoscope.kairosdb.queue;

import com.google.gson.Gson;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import com.google.gson.reflect.TypeToken;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.LongAdder;
import java.util.stream.Stream;
import org.kairosdb.core.DataPoint;
import org.kairosdb.util.KDataInput;

/**
 * A queue's files for an operator: what waits, out as points that can be put again, and away. Looking
 * and taking out work beside a KairosDB that runs; dropping does not.
 *
 * <p>{@code inspect|export|drop FOLDER [--metric NAME] [--all]}, where the folder is KairosDB's
 * {@code queue_path}. What it finds are the records since the checkpoint: the store may have some of
 * them, and writing these again changes nothing.
 */
public final class QueueTool {
  private static final String USAGE =
      "usage: QueueTool inspect|export|drop FOLDER [--metric NAME] [--all]";

  private final Path file;
  private final String metric;
  private final PrintStream out;
  private final PointCodec codec = 
      new PointCodec(new BuiltInTypes(), new LongAdder(), letter -> {});

  private QueueTool(Path folder, String metric, PrintStream out) {
    file = folder.resolve(QueueFile.NAME);
    this.metric = metric;
    this.out = out;
  }

  /** Ends with status 1 and a sentence if it cannot be done. */
  public static void main(String[] arguments) {
    PrintStream out =
        new PrintStream(
            new BufferedOutputStream(System.out, 1 << 16), false, StandardCharsets.UTF_8);
    try {
      run(List.of(arguments), out);
    } catch (IOException | IllegalArgumentException error) {
      out.flush();
      System.err.println(error.getMessage());
      System.exit(1);
    }
    out.flush();
  }

  /**
   * Does one thing.
   *
   * @param out gets what it has to say
   */
  static void run(List<String> arguments, PrintStream out) throws IOException {
    List<String> left = new ArrayList<>(arguments);
    boolean all = left.remove("--all");
    String metric = null;
    int at = left.indexOf("--metric");
    if (at >= 0 && at + 1 < left.size()) {
      metric = left.remove(at + 1);
      left.remove(at);
    }
    if (left.size() != 2) {
      throw new IllegalArgumentException(USAGE);
    }
    QueueFile.endDrop(Path.of(left.get(1)));
    QueueTool tool = new QueueTool(Path.of(left.get(1)), metric, out);
    if (!Files.isDirectory(tool.file)) {
      throw new IOException("there is no queue in " + left.get(1));
    }
    switch (left.get(0)) {
      case "inspect" -> tool.inspect();
      case "export" -> tool.export();
      case "drop" -> {
        if (all == (metric != null)) {
          throw new IllegalArgumentException("drop what: --metric NAME, or --all?");
        }
        tool.drop();
      }
      default -> throw new IllegalArgumentException(USAGE);
    }
  }

  private interface Each {
    void record(QueueReader reader, long index) throws IOException;
  }

  /** Tells of each whole record since the checkpoint. */
  private Recovery forEach(Each each) throws IOException {
    PageFolder data = new PageFolder(file.resolve("data"), 0);
    PageFolder index = new PageFolder(file.resolve("index"), IndexItem.PAGE_BYTES);
    TreeMap<Long, Long> dataPages = data.sizes();
    ByteBuffer meta = ByteBuffer.allocate(2 * Long.BYTES);
    Path noted = file.resolve("meta_data").resolve("page-0.dat");
    byte[] found = Files.exists(noted) ? Files.readAllBytes(noted) : new byte[0];
    meta.put(found, 0, Math.min(found.length, meta.capacity()));
    try (QueueReader reader = new QueueReader(data, index)) {
      Recovery recovery =
          Recovery.of(
              reader,
              index.sizes(),
              dataPages.isEmpty() ? 0 : dataPages.firstKey(),
              meta.getLong(0),
              meta.getLong(Long.BYTES));
      for (long i = recovery.tail(); i < recovery.head(); i++) {
        if (reader.load(i)) {
          each.record(reader, i);
        }
      }
      return recovery;
    }
  }

  private static String metricOf(QueueReader reader) throws IOException {
    return KDataInput.createInput(reader.bytes()).readUTF();
  }

  private boolean isMeant(QueueReader reader) throws IOException {
    return metric == null || metric.equals(metricOf(reader));
  }

  private void inspect() throws IOException {
    Map<String, Integer> metrics = new TreeMap<>();
    long[] countAndOldest = {0, Long.MAX_VALUE};
    // Counted as a node that starts does: without a checksum they look like KairosDB's own.
    long[] noPoints = {0};
    Recovery recovery =
        forEach(
            (reader, index) -> {
              if (codec.tagsAt(reader) == 0) {
                noPoints[0]++;
              } else if (isMeant(reader)) {
                metrics.merge(metricOf(reader), 1, Integer::sum);
                countAndOldest[0]++;
                countAndOldest[1] = Math.min(countAndOldest[1], reader.takenAt());
              }
            });
    Map<String, Object> said = new TreeMap<>();
    said.put("waiting", countAndOldest[0]);
    said.put("since_checkpoint", recovery.head() - recovery.tail());
    said.put("oldest_taken_at", countAndOldest[0] == 0 ? 0 : countAndOldest[1]);
    said.put("bytes", bytes());
    said.put("unreadable", recovery.unreadable() + noPoints[0]);
    said.put("metrics", metrics);
    out.println(new Gson().toJson(said));
  }

  private long bytes() throws IOException {
    try (Stream<Path> files = Files.walk(file)) {
      long bytes = 0;
      for (Path each : files.filter(Files::isRegularFile).toList()) {
        bytes += Files.size(each);
      }
      return bytes;
    }
  }

  private void export() throws IOException {
    Gson gson = new Gson();
    forEach(
        (reader, index) -> {
          int tagsAt = codec.tagsAt(reader);
          if (tagsAt > 0 && isMeant(reader)) {
            out.println(gson.toJson(point(reader, index, tagsAt, gson)));
          }
        });
  }

  /** In the form in which KairosDB takes it over REST. */
  private static JsonObject point(QueueReader reader, long index, int tagsAt, Gson gson)
      throws IOException {
    SeriesRecords one = new SeriesRecords(reader.bytes(), reader.length(), tagsAt);
    one.add(reader, tagsAt, index, null);
    Series series = one.series();
    Point point = one.points(new ArrayList<>()).get(0);
    JsonObject json = new JsonObject();
    json.addProperty("name", series.metric());
    json.addProperty("timestamp", point.time());
    if (new BuiltInTypes().getFactoryForDataStoreType(series.type()) == null) {
      json.addProperty("datastore_type", series.type());
      json.addProperty("value_base64", Base64.getEncoder().encodeToString(point.value()));
    } else {
      DataPoint value =
          new BuiltInTypes()
              .createDataPoint(
                  series.type(), point.time(), KDataInput.createInput(point.value()));
      json.add("value", value(value));
      json.addProperty("type", value.getApiDataType());
    }
    json.add(
        "tags",
        gson.toJsonTree(series.tags(), new TypeToken<Map<String, String>>() {}.getType()));
    json.addProperty("ttl", point.ttlS());
    return json;
  }

  private static JsonPrimitive value(DataPoint value) {
    if (value.isLong()) {
      return new JsonPrimitive(value.getLongValue());
    }
    if (value.isDouble()) {
      double number = value.getDoubleValue();
      // JSON has no word for these.
      return Double.isFinite(number)
          ? new JsonPrimitive(number)
          : new JsonPrimitive(Double.toString(number));
    }
    return new JsonPrimitive(
        ((org.kairosdb.core.datapoints.StringDataPoint) value).getValue());
  }

  /** Writes the others to a file of their own, which then takes the place of this one. */
  private void drop() throws IOException {
    Path parent = file.getParent();
    Path others = parent.resolve(QueueFile.OTHERS);
    long[] dropped = {0};
    int pageBytes = pageBytes();
    // Held until the end: nobody may begin with what is being replaced.
    try (QueueFile held = new QueueFile(parent, pageBytes, QueueFile.Limits.NONE, false)) {
      Files.createDirectory(others);
      try (QueueFile kept = new QueueFile(others, pageBytes, QueueFile.Limits.NONE, true)) {
        forEach(
            (reader, index) -> {
              if (isMeant(reader)) {
                dropped[0]++;
              } else {
                kept.append(
                    reader.bytes(), 0, reader.length(), reader.tagsAt(), reader.takenAt());
              }
            });
        kept.force();
        // Wherever this is ended, also by a loss of power, what opens the queue next finds the old
        // one or the new one.
        Path old = parent.resolve(QueueFile.REPLACED);
        Files.move(others.resolve(QueueFile.NAME), parent.resolve(QueueFile.KEPT));
        // While both are locked: the next drop has one of that name, too.
        delete(others);
        PageFolder.forceNames(parent);
        Files.move(file, old);
        QueueFile.endDrop(parent);
        delete(old);
      } catch (IOException | RuntimeException failed) {
        delete(others);
        throw failed;
      }
    }
    out.println("{\"dropped\": " + dropped[0] + "}");
  }

  private int pageBytes() throws IOException {
    return new PageFolder(file.resolve("data"), 0)
        .sizes().values().stream().mapToInt(Long::intValue).max().orElse(1 << 20);
  }

  /** With all that is in it; nothing if it is not there. */
  static void delete(Path folder) throws IOException {
    if (!Files.exists(folder)) {
      return;
    }
    try (Stream<Path> all = Files.walk(folder)) {
      for (Path each : all.sorted(Comparator.reverseOrder()).toList()) {
        Files.delete(each);
      }
    }
  }
}
