package io.kairoscope.kairosdb.door;

import com.google.inject.AbstractModule;
import com.google.inject.Guice;
import com.google.inject.Injector;
import com.google.inject.TypeLiteral;
import com.google.inject.name.Names;
import com.google.inject.util.Modules;
import com.sun.management.ThreadMXBean;
import io.kairoscope.kairosdb.StatusModule;
import io.kairoscope.kairosdb.queue.AnyCluster;
import io.kairoscope.kairosdb.queue.CoalescingQueueProcessor;
import io.kairoscope.kairosdb.queue.PointQueue;
import io.kairoscope.kairosdb.queue.TestConfig;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.management.ManagementFactory;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.locks.LockSupport;
import java.util.logging.LogManager;
import java.util.stream.Stream;
import org.kairosdb.core.CoreModule;
import org.kairosdb.core.KairosDataPointFactory;
import org.kairosdb.core.KairosRootConfig;
import org.kairosdb.core.datastore.Datastore;
import org.kairosdb.core.datastore.ServiceKeyStore;
import org.kairosdb.core.http.WebServer;
import org.kairosdb.core.http.WebServletModule;
import org.kairosdb.core.queue.QueueProcessor;
import org.kairosdb.datastore.cassandra.CassandraConfiguration;
import org.kairosdb.datastore.cassandra.ClusterConnection;
import org.kairosdb.datastore.cassandra.DataCache;
import org.kairosdb.datastore.cassandra.DataPointsRowKey;
import org.kairosdb.datastore.cassandra.TimedString;

/**
 * What a point costs from the bytes of a request to a batch for the store, which is not there: CPU
 * time by thread, and bytes of heap. Not a test: a main, to be run by hand in kairosdb-conf/plugin,
 * two versions in turn on a quiet machine:
 *
 * <pre>
 * mvn -q test-compile dependency:build-classpath -Dmdep.outputFile=target/classpath
 * java -Xmx512m -XX:+UseSerialGC --add-opens=java.base/java.lang=ALL-UNNAMED \
 *   -cp target/test-classes:target/classes:$(cat target/classpath) \
 *   io.kairoscope.kairosdb.door.IngestCost
 * </pre>
 *
 * <p>The requests are the loader's (loaders/send/encode.py): 100 sensors each, of which every one
 * has a point in its turn. Their digits are filled in, so that the client costs little. First {@code
 * http}: over a socket, through KairosDB's web server; then {@code body}: the same bodies to the
 * reader, from memory, where {@code main} is what reads them. At a rate, as a loop that runs as fast
 * as it can has its data in the caches.
 */
public final class IngestCost {
  private static final int SENSORS = 20_000;
  private static final int PER_REQUEST = 100;
  private static final int PORT = 18_185;

  private final ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
  private final byte[][] bodies = new byte[SENSORS / PER_REQUEST][];
  private final int perS;
  private int next;
  private long timeMs = System.currentTimeMillis();

  private IngestCost(int perS) {
    this.perS = perS;
    for (int i = 0; i < bodies.length; i++) {
      StringBuilder body = new StringBuilder("[");
      for (int sensor = i * PER_REQUEST; sensor < (i + 1) * PER_REQUEST; sensor++) {
        body.append("{\"name\":\"SENSOR_").append(sensor).append("\",\"timestamp\":");
        body.append(timeMs).append(",\"value\":").append(100_000 + sensor * 37 % 900_000);
        body.append(",\"tags\":{\"status\":\"good\"}},");
      }
      body.setCharAt(body.length() - 1, ']');
      bodies[i] = body.toString().getBytes(StandardCharsets.US_ASCII);
    }
  }

  /** The next sensors' request, with another time. */
  private byte[] body() {
    byte[] body = bodies[next];
    if (++next == bodies.length) {
      next = 0;
      timeMs += 1_000;
    }
    byte[] time = Long.toString(timeMs).getBytes(StandardCharsets.US_ASCII);
    for (int i = 0; i + 12 < body.length; i++) {
      if (body[i] == 'p' && body[i + 1] == '"') {
        System.arraycopy(time, 0, body, i + 3, time.length);
      }
    }
    return body;
  }

  private interface Sender {
    void send(byte[] body) throws Exception;
  }

  /** Arguments: points a second, points to warm up with, points to measure. */
  public static void main(String[] arguments) throws Exception {
    int perS = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 40_000;
    int warm = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 2_000_000;
    int points = arguments.length > 2 ? Integer.parseInt(arguments[2]) : 1_000_000;
    LogManager.getLogManager().reset(); // Jersey's, on standard error
    Path folder = Files.createTempDirectory("ingest-cost");
    try {
      Injector kairosDb = kairosDb(folder);
      QueueProcessor queue = kairosDb.getInstance(QueueProcessor.class);
      queue.setProcessorHandler(null);
      WebServer server = kairosDb.getInstance(WebServer.class);
      server.start();
      IngestCost cost = new IngestCost(perS);
      PointsReader reader =
          new PointsReader(
              (PointQueue) queue,
              kairosDb.getInstance(KairosDataPointFactory.class),
              new LargeRequests(1 << 20),
              Long.MAX_VALUE);
      try (Socket socket = new Socket("127.0.0.1", PORT)) {
        socket.setTcpNoDelay(true);
        cost.measure("http", warm, points, body -> post(socket, body));
      }
      cost.measure(
          "body", warm, points, body -> reader.read(new ByteArrayInputStream(body), new Errors()));
      server.stop();
      queue.shutdown();
    } finally {
      try (Stream<Path> files = Files.walk(folder)) {
        files.sorted((a, b) -> b.compareTo(a)).forEach(file -> file.toFile().delete());
      }
    }
    System.exit(0); // KairosDB has threads that nobody ends
  }

  private static Injector kairosDb(Path folder) throws Exception {
    Map<String, Object> settings = new HashMap<>();
    settings.put("kairosdb.jetty.port", PORT);
    settings.put("kairosdb.jetty.address", "127.0.0.1");
    settings.put("kairosdb.queue_processor.class", CoalescingQueueProcessor.class.getName());
    settings.put(CoreModule.QUEUE_PATH, folder.toString());
    settings.put("kairosdb.kairoscope.queue.window_ms", 5_000);
    settings.put("kairosdb.kairoscope.queue.keep_s", 5);
    KairosRootConfig config = TestConfig.of(settings);
    CassandraConfiguration cassandra = new CassandraConfiguration(config);
    return Guice.createInjector(
        Modules.override(
                new CoreModule(config),
                new WebServletModule(config),
                new StatusModule(),
                new DoorModule())
            .with(
                new AbstractModule() {
                  @Override
                  protected void configure() {
                    bind(Datastore.class).toInstance(new FakeDatastore());
                    bind(ServiceKeyStore.class).toInstance(new FakeKeyStore());
                    bind(CassandraConfiguration.class).toProvider(() -> cassandra);
                    bind(ClusterConnection.class)
                        .annotatedWith(Names.named("write_cluster"))
                        .toInstance(AnyCluster.forgetful(cassandra));
                    bind(new TypeLiteral<DataCache<DataPointsRowKey>>() {})
                        .toInstance(new DataCache<>(2 * SENSORS));
                    bind(new TypeLiteral<DataCache<TimedString>>() {})
                        .toInstance(new DataCache<>(2 * SENSORS));
                  }
                }));
  }

  private static void post(Socket socket, byte[] body) throws Exception {
    OutputStream out = socket.getOutputStream();
    byte[] head =
        ("POST /api/v1/datapoints HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                + "Content-Length: " + body.length + "\r\n\r\n")
            .getBytes(StandardCharsets.US_ASCII);
    byte[] request = new byte[head.length + body.length];
    System.arraycopy(head, 0, request, 0, head.length);
    System.arraycopy(body, 0, request, head.length, body.length);
    out.write(request);
    InputStream in = socket.getInputStream();
    byte[] answer = new byte[1 << 10];
    int length = 0;
    while (length < 4 || answer[length - 1] != '\n' || answer[length - 3] != '\n') {
      length += in.read(answer, length, answer.length - length);
    }
    String said = new String(answer, 0, length, StandardCharsets.US_ASCII);
    if (!said.startsWith("HTTP/1.1 204")) {
      throw new IllegalStateException(said);
    }
  }

  private void measure(String what, int warm, int points, Sender sender) throws Exception {
    run(warm, sender);
    Map<String, long[]> before = used();
    long compilersNs = compilersNs();
    run(points, sender);
    Map<String, long[]> after = used();
    System.out.printf("%s: %,d points%n", what, points);
    System.out.printf(
        "  %-16s %6.0f ns a point, %.1f s since the start%n",
        "compilers", (double) (compilersNs() - compilersNs) / points, compilersNs() / 1e9);
    after.forEach(
        (name, used) -> {
          long[] was = before.getOrDefault(name, new long[2]);
          double ns = (double) (used[0] - was[0]) / points;
          double bytes = (double) (used[1] - was[1]) / points;
          if (ns >= 1 || bytes >= 1) {
            System.out.printf("  %-16s %6.0f ns  %6.0f bytes a point%n", name, ns, bytes);
          }
        });
  }

  /** CPU time of the compilers, which no bean knows, from Linux. */
  private static long compilersNs() throws IOException {
    long ns = 0;
    try (DirectoryStream<Path> tasks = Files.newDirectoryStream(Path.of("/proc/self/task"))) {
      for (Path task : tasks) {
        if (Files.readString(task.resolve("comm")).matches("C[12] Compiler.*\\n")) {
          ns += Long.parseLong(Files.readString(task.resolve("schedstat")).split(" ")[0]);
        }
      }
    }
    return ns;
  }

  private void run(int points, Sender sender) throws Exception {
    long began = System.nanoTime();
    for (long sent = 0; sent < points; sent += PER_REQUEST) {
      long early = began + sent * 1_000_000_000L / perS - System.nanoTime();
      if (early > 0) {
        LockSupport.parkNanos(early);
      }
      sender.send(body());
    }
  }

  /** CPU ns and bytes of heap by the first word of the threads' names. */
  private Map<String, long[]> used() {
    Map<String, long[]> all = new TreeMap<>();
    for (long id : threads.getAllThreadIds()) {
      java.lang.management.ThreadInfo info = threads.getThreadInfo(id);
      if (info != null) {
        String name = info.getThreadName().replaceAll("[-0-9].*", "");
        long[] sum = all.computeIfAbsent(name, any -> new long[2]);
        sum[0] += Math.max(0, threads.getThreadCpuTime(id));
        sum[1] += Math.max(0, threads.getThreadAllocatedBytes(id));
      }
    }
    return all;
  }
}
