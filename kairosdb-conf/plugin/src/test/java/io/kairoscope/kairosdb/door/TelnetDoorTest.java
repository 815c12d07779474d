package io.kairoscope.kairosdb.door;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.inject.AbstractModule;
import com.google.inject.Guice;
import com.google.inject.Injector;
import com.google.inject.util.Modules;
import io.kairoscope.kairosdb.queue.TestConfig;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.kairosdb.core.CoreModule;
import org.kairosdb.core.KairosRootConfig;
import org.kairosdb.core.datastore.Datastore;
import org.kairosdb.core.datastore.ServiceKeyStore;
import org.kairosdb.core.telnet.TelnetServer;

/** Lines over KairosDB's own telnet server and pipeline. */
@Timeout(60)
class TelnetDoorTest {
  private final FakeQueue queue = new FakeQueue();
  private DoorStats stats;
  private TelnetServer server;
  private int port;

  @BeforeEach
  void start() throws Exception {
    try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      port = free.getLocalPort();
    }
    Map<String, Object> settings = new HashMap<>();
    settings.put("kairosdb.telnetserver.port", port);
    settings.put("kairosdb.telnetserver.address", "127.0.0.1");
    settings.put("kairosdb.queue_processor.class", FakeQueue.class.getName());
    KairosRootConfig config = TestConfig.of(settings);
    Injector injector =
        Guice.createInjector(
            Modules.override(new CoreModule(config), new TelnetModule(config), new DoorModule())
                .with(
                    new AbstractModule() {
                      @Override
                      protected void configure() {
                        bind(FakeQueue.class).toInstance(queue);
                        bind(Datastore.class).toInstance(new FakeDatastore());
                        bind(ServiceKeyStore.class).toInstance(new FakeKeyStore());
                      }
                    }));
    stats = injector.getInstance(DoorStats.class);
    server = injector.getInstance(TelnetServer.class);
    server.start();
  }

  @AfterEach
  void stop() {
    server.stop();
  }

  private void send(String... lines) throws Exception {
    try (Socket socket = new Socket("127.0.0.1", port)) {
      OutputStream out = socket.getOutputStream();
      out.write((String.join("\n", lines) + "\n").getBytes(StandardCharsets.ISO_8859_1));
      out.flush();
      socket.shutdownOutput();
      // The server closes when it has read all; it says nothing.
      assertEquals(-1, socket.getInputStream().read());
    }
  }

  @Test
  void pointsAsKairosDbTakesThem() throws Exception {
    send(
        "put m 1400000000 1 a=b",
        "put m 1400000000123 1.5 a=b c=d kairos_opt.ttl=30",
        "putm m 14 -2 a=b",
        "puts m 15 text a=b",
        "putm m 16 1e5",
        "");
    assertEquals(
        List.of(
            "m {a=b} 1400000000000 1.0 long 0",
            "m {a=b, c=d} 1400000000123 1.5 double 30",
            "m {a=b} 14 -2.0 long 0",
            "m {a=b} 15 0.0 string 0",
            "m {add=tag} 16 100000.0 double 0"),
        queue.puts.stream()
            .map(
                p ->
                    p.metric() + " " + p.tags() + " " + p.point().getTimestamp() + " "
                        + p.point().getDoubleValue() + " " + p.point().getApiDataType() + " "
                        + p.ttlS())
            .toList());
    assertEquals(5, stats.telnetPoints.sum());
    // Nobody acknowledges them, and a loss of power is to take no more than the last of them.
    assertEquals(Collections.nCopies(5, "sync soon"), queue.calls);
  }

  @Test
  void otherCommandsAreKairosDbs() throws Exception {
    try (Socket socket = new Socket("127.0.0.1", port)) {
      // What our loaders ask at the end, to know that all lines before it were read.
      socket.getOutputStream().write("putm m 1 1 a=b\nversion\n".getBytes());
      byte[] answer = new byte[100];
      assertTrue(socket.getInputStream().read(answer) > 0);
      assertEquals(1, queue.puts.size());
    }
  }

  @Test
  void whatIsNotTakenIsCountedAndKeepsNoOtherLineOut() throws Exception {
    String[] bad = {
      "put",
      "put m",
      "put m 1",
      "put m x 1 a=b",
      "put m 1.5 1 a=b",
      "put m 1 NaN a=b",
      "put m 1 1.0e400 a=b", // an infinity to KairosDB
      "put m 1 9223372036854775808 a=b",
      "put m 1 1e-400 a=b",
      "put m 1 x a=b",
      "put m -9223372036854775808 1 a=b", // times 1000 it is another time
      "put m 1 1 a",
      "put m 1 1 a=",
      "put m 1 1 =b",
      "put m 1 1 a=b a=c",
      "put m 1 1 a=b kairos_opt.ttl=x",
      "put m 1 1 a=b kairos_opt.ttl=-5",
      "nothing m 1 1 a=b",
      "put m 1 1 a=" + "b".repeat(2_000), // longer than a line may be
    };
    for (String line : bad) {
      long before = stats.telnetErrors.sum();
      queue.puts.clear();
      send("putm m 1 1 a=b", line, "putm m 2 1 a=b");
      assertEquals(before + 1, stats.telnetErrors.sum(), line);
      assertEquals(2, queue.puts.size(), line);
    }
  }

  @Test
  void whatTheQueueDoesNotTakeIsCounted() throws Exception {
    queue.takes = 1;
    send("putm m 1 1 a=b", "putm m 2 1 a=b", "putm m 3 1 a=b");
    assertEquals(2, stats.telnetErrors.sum());
    queue.takes = 10;
    queue.fails = new NoSuchMethodError("oops");
    send("putm m 1 1 a=b");
    assertEquals(3, stats.telnetErrors.sum());
    queue.fails = null;
    send("putm m 1 1 a=b");
    assertEquals(2, queue.puts.size());
  }

  @Test
  void aNewSeriesBeyondTheBoundIsNotTaken() throws Exception {
    send("putm new.m 1 1 a=b", "putm m 2 1 a=b", "puts new.m 3 text a=b");
    assertEquals(1, queue.puts.size());
    assertEquals(2, stats.telnetErrors.sum());
    assertEquals(1, stats.telnetPoints.sum());
    TelnetPoints points = new TelnetPoints(queue, new FakeFactories());
    Refusal refused =
        assertThrows(Refusal.class, () -> points.put(List.of("putm", "new.m", "1", "1", "a=b")));
    assertEquals("its series is new", refused.getMessage());
  }

  @Test
  void aSenderThatNeverReadsLosesNothing() throws Exception {
    for (int i = 0; i < 20; i++) {
      try (Socket socket = new Socket("127.0.0.1", port)) {
        String lines = "put m 1 x a=b\n".repeat(200) + "putm m 1 1 a=b\n".repeat(200);
        socket.getOutputStream().write(lines.getBytes(StandardCharsets.US_ASCII));
      }
    }
    long end = System.nanoTime() + 10_000_000_000L;
    while (queue.puts.size() < 4_000 && System.nanoTime() < end) {
      Thread.sleep(10);
    }
    assertEquals(4_000, queue.puts.size());
    assertEquals(4_000, stats.telnetErrors.sum());
  }

  @Test
  void whoAsksAndDoesNotReadIsNotListenedTo() throws Exception {
    byte[] asked = "version\n".repeat(1 << 17).getBytes(StandardCharsets.US_ASCII);
    int times = 64;
    AtomicInteger written = new AtomicInteger();
    try (Socket socket = new Socket("127.0.0.1", port)) {
      Thread writer =
          new Thread(
              () -> {
                try {
                  while (written.get() < times) {
                    socket.getOutputStream().write(asked);
                    written.incrementAndGet();
                  }
                } catch (IOException closed) {
                  // at the end
                }
              });
      writer.start();
      for (int before = -1; before < written.get(); Thread.sleep(1_000)) {
        before = written.get();
      }
      assertTrue(written.get() < times, "all its questions are in memory, with their answers");
      // Others are served, and so is it when it reads.
      send("putm m 1 1 a=b");
      assertEquals(1, queue.puts.size());
      int before = written.get();
      while (written.get() == before) {
        assertTrue(socket.getInputStream().read(new byte[1 << 16]) > 0);
      }
    }
  }

  @Test
  void numbersOfTheRestDoor() {
    TelnetPoints points = new TelnetPoints(queue, new FakeFactories());
    assertThrows(Refusal.class, () -> points.put(List.of("put", "m", "1", "Infinity", "a=b")));
    assertThrows(Refusal.class, () -> points.put(List.of("putm", "m", "1e400", "1", "a=b")));
  }
}
