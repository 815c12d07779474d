package io.kairoscope.kairosdb.door;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonParser;
import com.google.inject.AbstractModule;
import com.google.inject.Guice;
import com.google.inject.Injector;
import com.google.inject.TypeLiteral;
import com.google.inject.name.Names;
import com.google.inject.util.Modules;
import io.kairoscope.kairosdb.MetricsResource;
import io.kairoscope.kairosdb.StatusModule;
import io.kairoscope.kairosdb.metrics.Parsed;
import io.kairoscope.kairosdb.queue.AnyCluster;
import io.kairoscope.kairosdb.queue.Decoded;
import io.kairoscope.kairosdb.queue.QueueHealth;
import io.kairoscope.kairosdb.queue.TestConfig;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.SequenceInputStream;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.logging.LogManager;
import java.util.zip.GZIPOutputStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.kairosdb.core.CoreModule;
import org.kairosdb.core.KairosRootConfig;
import org.kairosdb.core.datapoints.DoubleDataPoint;
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

/** The door in KairosDB's own web server: Jetty, Guice's filter and Jersey behind it. */
@Timeout(120)
class DoorFilterTest {
  private static final String POINT =
      "{\"name\":\"m\",\"tags\":{\"a\":\"b\"},\"datapoints\":[[1,2]]}";
  private static final String BAD =
      "{\"name\":\"m\",\"tags\":{\"a\":\"b\"},\"datapoints\":[[1,1e400]]}";

  private final FakeQueue queue = new FakeQueue();
  private final FakeDatastore datastore = new FakeDatastore();
  private final HttpClient client = HttpClient.newHttpClient();
  private Injector injector;
  private int port;
  private WebServer server;

  @BeforeEach
  void start() throws Exception {
    LogManager.getLogManager().reset(); // Jersey's, on standard error
    try (ServerSocket free = new ServerSocket(0)) {
      port = free.getLocalPort();
    }
    Map<String, Object> settings = new HashMap<>();
    settings.put("kairosdb.jetty.port", port);
    settings.put("kairosdb.jetty.address", "127.0.0.1");
    settings.put("kairosdb.queue_processor.class", FakeQueue.class.getName());
    settings.put(DoorSettings.PREFIX + "max_request_mb", 2);
    KairosRootConfig config = TestConfig.of(settings);
    CassandraConfiguration cassandra = new CassandraConfiguration(config);
    injector =
        Guice.createInjector(
            Modules.override(
                    new CoreModule(config),
                    new WebServletModule(config),
                    new StatusModule(),
                    new HealthModule(),
                    new DoorModule())
                .with(
                    new AbstractModule() {
                      @Override
                      protected void configure() {
                        bind(FakeQueue.class).toInstance(queue);
                        bind(Datastore.class).toInstance(datastore);
                        bind(ServiceKeyStore.class).toInstance(new FakeKeyStore());
                        bind(CassandraConfiguration.class).toProvider(() -> cassandra);
                        bind(ClusterConnection.class)
                            .annotatedWith(Names.named("write_cluster"))
                            .toInstance(AnyCluster.of(cassandra, true));
                        bind(new TypeLiteral<DataCache<DataPointsRowKey>>() {})
                            .toInstance(new DataCache<>(1));
                        bind(new TypeLiteral<DataCache<TimedString>>() {})
                            .toInstance(new DataCache<>(1));
                      }
                    }));
    server = injector.getInstance(WebServer.class);
    server.start();
  }

  @AfterEach
  void stop() {
    server.stop();
  }

  private HttpResponse<String> send(
      String method, String path, BodyPublisher body, String... headers) throws Exception {
    HttpRequest.Builder request =
        HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + path)).method(method, body);
    if (headers.length > 0) {
      request.headers(headers);
    }
    return client.send(request.build(), BodyHandlers.ofString());
  }

  private HttpResponse<String> post(String body, String... headers) throws Exception {
    return send("POST", "/api/v1/datapoints", BodyPublishers.ofString(body), headers);
  }

  private static byte[] gzip(String body) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (GZIPOutputStream gzip = new GZIPOutputStream(bytes)) {
      gzip.write(body.getBytes(StandardCharsets.UTF_8));
    }
    return bytes.toByteArray();
  }

  private double metric(String series) {
    return new Parsed(injector.getInstance(MetricsResource.class).metrics())
        .value("kairosdb_" + series);
  }

  /** A request's time is known only after its client has the answer. */
  private double timed(String kind, int atLeast) throws InterruptedException {
    String series = "request_duration_seconds_count{kind=\"" + kind + "\"}";
    for (int tries = 0; tries < 1_000 && metric(series) < atLeast; tries++) {
      Thread.sleep(10);
    }
    return metric(series);
  }

  private double requests(int code) {
    return metric("ingest_requests_total{code=\"" + code + "\"}");
  }

  private double points(int code) {
    return metric("ingest_points_total{protocol=\"rest\",code=\"" + code + "\"}");
  }

  @Test
  void pointsAreTakenBeforeTheAnswer() throws Exception {
    HttpResponse<String> answer = post("[" + POINT + "," + POINT + "]");
    assertEquals(204, answer.statusCode());
    assertEquals("*", answer.headers().firstValue("Access-Control-Allow-Origin").get());
    assertEquals("no-cache", answer.headers().firstValue("Cache-Control").get());
    assertEquals(2, queue.puts.size());
    assertEquals(List.of("sync"), queue.calls);
    assertEquals(1, requests(204));
    assertEquals(2, points(204));
    assertEquals(POINT.length() * 2 + 3, metric("ingest_bytes_total"));
    assertEquals(1, timed("ingest", 1));
    assertEquals(0, timed("query", 0));
  }

  @Test
  void gzipAsKairosDbTakesIt() throws Exception {
    byte[] packed = gzip(POINT);
    for (String[] headers :
        List.of(
            new String[] {"Content-Encoding", "gzip"},
            new String[] {"Content-Type", "application/gzip"},
            new String[] {"Content-Type", "application/gzip", "Content-Encoding", "gzip"})) {
      HttpResponse<String> answer =
          send("POST", "/api/v1/datapoints/", BodyPublishers.ofByteArray(packed), headers);
      assertEquals(204, answer.statusCode());
    }
    assertEquals(3, queue.puts.size());
    HttpResponse<String> none = post("no gzip", "Content-Encoding", "gzip");
    assertEquals(400, none.statusCode());
    assertTrue(none.body().startsWith("{\"errors\":[\"Not gzip: "), none.body());
    HttpResponse<String> torn =
        send(
            "POST",
            "/api/v1/datapoints",
            BodyPublishers.ofByteArray(Arrays.copyOf(packed, packed.length - 12)),
            "Content-Encoding",
            "gzip");
    assertEquals(400, torn.statusCode());
  }

  @Test
  void whatIsTheSendersIs400AndTheOthersAreTaken() throws Exception {
    HttpResponse<String> answer = post("[" + POINT + "," + BAD + "," + POINT + "]");
    assertEquals(400, answer.statusCode());
    assertEquals(
        "{\"errors\":[\"metric[1](name=m).datapoints[0]: 1e400 is out of the range of double\"],"
            + "\"taken\":2,\"refused\":1}",
        answer.body());
    assertEquals(List.of("sync"), queue.calls);
    answer = post("[" + POINT + ",{]");
    assertEquals(400, answer.statusCode());
    assertTrue(answer.body().contains("Invalid json"), answer.body());
    assertTrue(answer.body().contains("\"taken\":1"), answer.body());
    assertEquals(2, requests(400));
    assertEquals(3, points(400));
    assertEquals(0, requests(204));
    assertEquals(1, metric("ingest_refused_points_total"));
  }

  @Test
  void tooManyNewSeriesAre429AndTheOthersAreTaken() throws Exception {
    String later = POINT.replace("\"m\"", "\"new.1\"");
    HttpResponse<String> answer = post("[" + POINT + "," + later + "," + POINT + "]");
    assertEquals(429, answer.statusCode());
    assertEquals("1", answer.headers().firstValue("Retry-After").get());
    assertEquals(
        "{\"errors\":[\"metric[1](name=new.1): its series is new\"],"
            + "\"taken\":2,\"refused\":1}",
        answer.body());
    assertEquals(List.of("sync"), queue.calls);
    assertEquals(List.of("m", "m"), queue.puts.stream().map(Decoded::metric).toList());
    // Also with what is wrong for good: sent again, that alone is left.
    assertEquals(429, post("[" + BAD + "," + later + "]").statusCode());
    assertEquals(2, requests(429));
    assertEquals(2, points(429));
    assertEquals(1, metric("ingest_refused_points_total"));
  }

  @Test
  void whoHoldsMoreThanItsShareOfTheThreadsIsCut() throws Exception {
    List<Socket> all = new ArrayList<>();
    try {
      for (int i = 0; i < SlowBodies.SLOW_OF_ONE + 20; i++) {
        Socket socket = new Socket("127.0.0.1", port);
        all.add(socket);
        String path = i % 2 == 0 ? "" : "/query";
        socket
            .getOutputStream()
            .write(
                ("POST /api/v1/datapoints" + path + " HTTP/1.1\r\nHost: a\r\n"
                        + "Content-Length: 100\r\n\r\n[")
                    .getBytes(StandardCharsets.US_ASCII));
      }
      for (Socket socket : all.subList(0, 20)) {
        socket.getInputStream().readAllBytes(); // until it is closed
      }
      assertEquals(204, post(POINT).statusCode());
      assertTrue(metric("requests_cut_total") >= 20);
    } finally {
      for (Socket socket : all) {
        socket.close();
      }
    }
  }

  @Test
  void queriesLeaveThreadsForPoints() throws Exception {
    datastore.hold = new CountDownLatch(1);
    List<CompletableFuture<HttpResponse<String>>> held = new ArrayList<>();
    try {
      for (int i = 0; i < 64; i++) {
        held.add(client.sendAsync(names(), BodyHandlers.ofString()));
      }
      while (datastore.calls.size() < 64) {
        Thread.sleep(10);
      }
      HttpResponse<String> refused = client.send(names(), BodyHandlers.ofString());
      assertEquals(503, refused.statusCode());
      assertEquals("{\"errors\":[\"More than 64 queries at once\"]}", refused.body());
      assertEquals(204, post(POINT).statusCode());
      assertEquals(1, metric("requests_busy_total"));
    } finally {
      datastore.hold.countDown();
    }
    for (CompletableFuture<HttpResponse<String>> one : held) {
      assertEquals(200, one.get().statusCode());
    }
  }

  private HttpRequest names() {
    return HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + "/api/v1/metricnames"))
        .build();
  }

  @Test
  void anAnswerIsJsonWhateverTheNames() throws Exception {
    HttpResponse<String> answer =
        post("[{\"name\":\"a\\\"b\\\\c\\u0001\\u2028ä\",\"timestamp\":1,\"value\":1}]");
    assertEquals(400, answer.statusCode());
    assertEquals(
        "metric[0](name=a\"b\\c\u0001\u2028ä).tags count must be greater than or equal to 1.",
        new JsonParser()
            .parse(answer.body())
            .getAsJsonObject()
            .get("errors")
            .getAsString());
  }

  @Test
  void whatIsOursIs503() throws Exception {
    queue.takes = 1;
    HttpResponse<String> answer = post("[" + POINT + "," + POINT + "]");
    assertEquals(503, answer.statusCode());
    assertEquals("1", answer.headers().firstValue("Retry-After").get());
    assertEquals("{\"errors\":[\"the disk is full\"],\"taken\":1,\"refused\":0}", answer.body());
    queue.takes = 100;
    queue.syncs = false;
    answer = post(POINT);
    assertEquals(503, answer.statusCode());
    // In the file, perhaps; what is promised is nothing.
    assertEquals("{\"errors\":[\"the disk is gone\"],\"taken\":0,\"refused\":0}", answer.body());
    assertEquals(2, requests(503));
    // One was taken before the disk was full, and one may be there although it is not promised.
    assertEquals(2, points(503));
  }

  @Test
  void anyErrorIsJsonWithoutATrace() throws Exception {
    queue.fails = new NoSuchMethodError("oops");
    HttpResponse<String> answer = post(POINT);
    assertEquals(500, answer.statusCode());
    assertTrue(answer.headers().firstValue("Content-Type").get().startsWith("application/json"));
    assertFalse(answer.body().contains("\tat "), answer.body());
    assertEquals(1, requests(500));
  }

  @Test
  void aBodyIsBoundedBeforeItIsRead() throws Exception {
    try (Socket socket = new Socket("127.0.0.1", port)) {
      socket
          .getOutputStream()
          .write(
              // Jetty waits for the first byte, and we for no more.
              ("POST /api/v1/datapoints HTTP/1.1\r\nHost: x\r\nContent-Length: 2097153\r\n\r\n[")
                  .getBytes(StandardCharsets.US_ASCII));
      socket.setSoTimeout(5_000);
      byte[] answer = new byte[4096];
      int length = socket.getInputStream().read(answer);
      String said = new String(answer, 0, length, StandardCharsets.US_ASCII);
      assertTrue(said.startsWith("HTTP/1.1 413"), said);
      assertTrue(said.contains("\"taken\":0"), said);
    }
    assertEquals(1, requests(413));
    assertEquals(0, metric("requests_too_large_total"));
  }

  @Test
  void aBodyOfUnknownLengthIsBoundedWhileItIsRead() throws Exception {
    BodyPublisher endless =
        BodyPublishers.ofInputStream(
            () -> new SequenceInputStream(bytes("[" + POINT), repeated("," + POINT, 3 << 20)));
    HttpResponse<String> answer = send("POST", "/api/v1/datapoints", endless);
    assertEquals(413, answer.statusCode());
    assertTrue(answer.body().contains("more than 2 MB"), answer.body());
    assertTrue(answer.body().contains("\"taken\":" + queue.puts.size()), answer.body());
    assertTrue(queue.puts.size() > 30_000);
  }

  private static InputStream bytes(String text) {
    return new ByteArrayInputStream(text.getBytes(StandardCharsets.UTF_8));
  }

  private static InputStream repeated(String text, int bytes) {
    return bytes(text.repeat(bytes / text.length()));
  }

  @Test
  void aSmallPackedBodyCannotBeALargeOne() throws Exception {
    byte[] bomb = gzip("[" + " ".repeat(50 << 20) + POINT + "]");
    HttpResponse<String> answer =
        send(
            "POST",
            "/api/v1/datapoints",
            BodyPublishers.ofByteArray(bomb),
            "Content-Encoding",
            "gzip");
    assertEquals(413, answer.statusCode());
    assertTrue(answer.body().contains("when unpacked"), answer.body());
  }

  @Test
  void aSmallBodyDoesNotFillTheQueue() throws Exception {
    queue.keeps = false;
    String points = "[1,1]" + ",[1,1]".repeat(9_999);
    byte[] small =
        gzip(
            "{\"name\":\"m\",\"tags\":{\"a\":\"" + "x".repeat(60_000) + "\"},\"datapoints\":["
                + points + "]}");
    HttpResponse<String> answer =
        send(
            "POST",
            "/api/v1/datapoints",
            BodyPublishers.ofByteArray(small),
            "Content-Encoding",
            "gzip");
    assertEquals(413, answer.statusCode());
    assertTrue(answer.body().contains("more than 32 MB in the queue"), answer.body());
    assertTrue(queue.count > 500 && queue.count < 600, "took " + queue.count);
    assertTrue(answer.body().contains("\"taken\":" + queue.count), answer.body());
    assertEquals(queue.count, points(413));
  }

  @Test
  void largeRequestsAtOnceDoNotAddUp() throws Exception {
    // The JVM of the tests has 512 MB; each of these would need 10 as KairosDB reads them.
    queue.keeps = false;
    String points = ",[1,1]".repeat(340_000).substring(1);
    // One for all, or what the senders hold would be what fills the heap.
    byte[] body =
        ("{\"name\":\"m\",\"datapoints\":[" + points + "],\"tags\":{\"a\":\"b\"}}")
            .getBytes(StandardCharsets.UTF_8);
    List<Thread> threads = new ArrayList<>();
    List<Integer> answers = Collections.synchronizedList(new ArrayList<>());
    for (int i = 0; i < 60; i++) {
      Thread thread =
          new Thread(
              () -> {
                try {
                  answers.add(
                      send("POST", "/api/v1/datapoints", BodyPublishers.ofByteArray(body))
                          .statusCode());
                } catch (Exception error) {
                  answers.add(-1);
                }
              });
      thread.start();
      threads.add(thread);
    }
    for (Thread thread : threads) {
      thread.join();
    }
    assertEquals(60, answers.size());
    assertTrue(answers.stream().allMatch(status -> status == 204 || status == 503), "" + answers);
    assertEquals(204, post(POINT).statusCode());
  }

  @Test
  void otherRequestsAreKairosDbs() throws Exception {
    HttpResponse<String> version = send("GET", "/api/v1/version", BodyPublishers.noBody());
    assertEquals(200, version.statusCode());
    HttpResponse<String> options =
        send(
            "OPTIONS",
            "/api/v1/datapoints",
            BodyPublishers.noBody(),
            "Access-Control-Request-Method",
            "POST");
    assertEquals(200, options.statusCode());
    HttpResponse<String> query =
        send("POST", "/api/v1/datapoints/query/tags", BodyPublishers.ofString("{"));
    assertEquals(400, query.statusCode());
    assertEquals(0, queue.puts.size());
  }

  /** KairosDB's way from a query to its answer goes through many libraries. */
  @Test
  void queriesOfAllKindsAreAnsweredAsEver() throws Exception {
    datastore.points =
        List.of(
            new DoubleDataPoint(1_000, 1.5),
            new DoubleDataPoint(61_000, -2e-7),
            new DoubleDataPoint(62_000, 3));
    String minute = "{\"value\":1,\"unit\":\"minutes\"}";
    String answered =
        answer(
            "\"tags\":{\"a\":[\"b\",\"c\"]},"
                + "\"group_by\":[{\"name\":\"tag\",\"tags\":[\"a\"]}],"
                + "\"aggregators\":[{\"name\":\"sum\",\"align_sampling\":true,\"sampling\":"
                + minute
                + "},{\"name\":\"scale\",\"factor\":2}]");
    for (String part :
        List.of(
            "{\"queries\":[{\"sample_size\":3,\"results\":[{\"name\":\"m\",",
            "{\"name\":\"tag\",\"tags\":[\"a\"],\"group\":{\"a\":\"b\"}}",
            "\"tags\":{\"a\":[\"b\"]}",
            "000,3],[6",
            "000,5.9999996]]")) {
      assertTrue(answered.contains(part), answered);
    }
    String sampling = ",\"sampling\":" + minute + "}]";
    String group = "\"group_by\":[{\"range_size\":";
    for (String more :
        List.of(
            "\"limit\":2,\"order\":\"desc\"",
            group + "1,\"name\":\"value\"}]",
            group + minute + ",\"name\":\"time\",\"group_count\":2}]",
            "\"aggregators\":[{\"name\":\"percentile\",\"percentile\":0.9" + sampling,
            "\"aggregators\":[{\"name\":\"least_squares\"" + sampling,
            "\"aggregators\":[{\"name\":\"rate\",\"unit\":\"seconds\"}]",
            "\"aggregators\":[{\"name\":\"filter\",\"filter_op\":\"lt\",\"threshold\":\"1\"}]")) {
      assertTrue(answer(more).contains("\"values\":["), more);
    }
    HttpResponse<String> wrong = query("\"aggregators\":[{\"name\":\"none\"}]");
    assertEquals(400, wrong.statusCode());
    assertTrue(wrong.body().contains("metric[0].aggregators[0]"), wrong.body());
  }

  private String answer(String more) throws Exception {
    HttpResponse<String> answer = query(more);
    assertEquals(200, answer.statusCode(), answer.body());
    return answer.body();
  }

  private HttpResponse<String> query(String more) throws Exception {
    String body =
        "{\"start_absolute\":0,\"end_absolute\":100000,\"metrics\":[{\"name\":\"m\","
            + more
            + "}]}";
    return send("POST", "/api/v1/datapoints/query", BodyPublishers.ofString(body));
  }

  @Test
  void bodiesOfOthersAreBoundedToo() throws Exception {
    String large = "{\"x\":\"" + "y".repeat(3 << 20) + "\"}";
    HttpResponse<String> query =
        send("POST", "/api/v1/datapoints/query", BodyPublishers.ofString(large));
    assertEquals(413, query.statusCode());
    HttpResponse<String> chunked =
        send(
            "POST",
            "/api/v1/datapoints/query",
            BodyPublishers.ofInputStream(() -> bytes(large)));
    assertEquals(413, chunked.statusCode());
    assertEquals(
        "{\"errors\":[\"The request has more than 2 MB; send less at a time\"]}", chunked.body());
    assertEquals(2, metric("requests_too_large_total"));
    assertEquals(2, timed("query", 2));
  }

  @Test
  void noSpellingOfThePathComesToKairosDbsDoor() throws Exception {
    HttpResponse<String> answer =
        send("POST", "/api/v1/data%70oints", BodyPublishers.ofString("[" + BAD + "]"));
    assertEquals(400, answer.statusCode());
    assertTrue(answer.body().contains("\"refused\":1"), answer.body());
  }

  @Test
  void theHealthCheckKnowsTheQueue() throws Exception {
    assertEquals(204, send("GET", "/api/v1/health/check", BodyPublishers.noBody()).statusCode());
    String status = send("GET", "/api/v1/health/status", BodyPublishers.noBody()).body();
    assertTrue(status.contains("Coalescing-Queue: OK"), status);
    assertTrue(status.contains("Datastore-Query: OK"), status);
    assertEquals(status.indexOf("Datastore-Query"), status.lastIndexOf("Datastore-Query"));
    queue.health = new QueueHealth(List.of("100% of the disk is used"), 5, 6, 7, 8);
    assertEquals(500, send("GET", "/api/v1/health/check", BodyPublishers.noBody()).statusCode());
    status = send("GET", "/api/v1/health/status", BodyPublishers.noBody()).body();
    assertTrue(status.contains("Coalescing-Queue: FAIL"), status);
    String depth = send("GET", "/api/v1/kairoscope/queue", BodyPublishers.noBody()).body();
    assertEquals(
        "{\"dead_letters\":7,\"disk_bytes\":6,\"healthy\":false,\"oldest_ms\":5,"
            + "\"since_checkpoint\":0,\"troubles\":[\"100% of the disk is used\"],"
            + "\"unreadable\":8,\"waiting\":0}",
        depth);
  }

  @Test
  void metricsAreToldInPrometheusForm() throws Exception {
    String path = "/api/v1/kairoscope/metrics";
    for (int others = 0; others < 2; others++) {
      timed("other", others);
      HttpResponse<String> answer = send("GET", path, BodyPublishers.noBody());
      assertEquals(200, answer.statusCode());
      String type = answer.headers().firstValue("Content-Type").get();
      assertTrue(type.startsWith("text/plain;") && type.contains("version=0.0.4"), type);
      Parsed all = new Parsed(answer.body());
      assertEquals(
          others, all.value("kairosdb_request_duration_seconds_count{kind=\"other\"}"));
      assertEquals(0, all.value("kairosdb_metrics_failures_total"));
    }
  }

  @Test
  void pointsThatCannotBeTakenFromAnotherResourceAre503() throws Exception {
    injector.getInstance(NotTakenMapper.class);
    HttpResponse<String> answer =
        send(
            "GET",
            "/api/v1/datapoints/index?start_absolute=1&end_absolute=2&metric=not-taken",
            BodyPublishers.noBody());
    assertEquals(503, answer.statusCode());
    assertEquals("1", answer.headers().firstValue("Retry-After").get());
    assertEquals("{\"errors\":[\"the disk is full\"]}", answer.body());
  }

  @Test
  void aSenderThatGoesAwayLeavesNothingBehind() throws Exception {
    for (int i = 0; i < 20; i++) {
      try (Socket socket = new Socket("127.0.0.1", port)) {
        OutputStream out = socket.getOutputStream();
        out.write(
            ("POST /api/v1/datapoints HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n["
                    + POINT
                    + ",")
                .getBytes(StandardCharsets.US_ASCII));
      }
    }
    assertEquals(204, post(POINT).statusCode());
  }
}
