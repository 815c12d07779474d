package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.common.collect.ImmutableSortedMap;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.StandardWatchEventKinds;
import java.nio.file.WatchKey;
import java.nio.file.WatchService;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.kairosdb.core.DataPoint;
import org.kairosdb.core.datapoints.DoubleDataPoint;
import org.kairosdb.core.datapoints.LongDataPoint;
import org.kairosdb.core.datapoints.StringDataPoint;

/** An operator looks at a queue, takes points out of it, and drops some. */
class QueueToolTest {
  private static final int PAGE_BYTES = 5_000;
  private static final int EACH = 100;

  @TempDir(factory = OnDisk.class)
  Path folder;

  private final Records records = new Records();

  @BeforeEach
  void fill() throws Exception {
    try (QueueFile file = open()) {
      for (int i = 0; i < EACH; i++) {
        put(file, "whole", new LongDataPoint(i, -i));
        put(file, "half", new DoubleDataPoint(i, i + 0.5));
        put(file, "text", new StringDataPoint(i, "naïve \"" + i + "\"\n"));
      }
    }
  }

  private QueueFile open() throws IOException {
    return new QueueFile(folder, PAGE_BYTES, QueueFile.Limits.NONE, false);
  }

  private void put(QueueFile file, String metric, DataPoint point) throws Exception {
    RecordBuffer record =
        records.codec.record(metric, ImmutableSortedMap.of("a", "ü"), point, 77);
    file.append(record.bytes(), 0, record.length(), record.tagsAt(0), 5_000 + point.getTimestamp());
  }

  private List<JsonObject> run(String... arguments) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    List<String> all = new ArrayList<>(List.of(arguments));
    all.add(1, folder.toString());
    PrintStream out = new PrintStream(bytes, true, StandardCharsets.UTF_8);
    QueueTool.run(all, out);
    return bytes
        .toString(StandardCharsets.UTF_8)
        .lines()
        .map(line -> new JsonParser().parse(line).getAsJsonObject())
        .toList();
  }

  @Test
  void whatWaitsIsCounted() throws IOException {
    // Also while KairosDB has it.
    try (QueueFile running = open()) {
      JsonObject said = run("inspect").get(0);
      assertEquals(3 * EACH, said.get("waiting").getAsInt());
      assertEquals(5_000, said.get("oldest_taken_at").getAsLong());
      assertEquals(0, said.get("unreadable").getAsInt());
      assertEquals(EACH, said.getAsJsonObject("metrics").get("half").getAsInt());
      assertTrue(said.get("bytes").getAsLong() > 0);
    }
  }

  /** Without its checksum it looks like one of KairosDB's own, which have none. */
  @Test
  void whatLostItsChecksumAndItsBytesIsToldOf() throws IOException {
    Path file = folder.resolve(QueueFile.NAME);
    long at = 7L * IndexItem.BYTES;
    try (FileChannel index =
        FileChannel.open(
            file.resolve("index").resolve("page-0.dat"),
            StandardOpenOption.READ,
            StandardOpenOption.WRITE)) {
      ByteBuffer item = ByteBuffer.allocate(IndexItem.BYTES);
      index.read(item, at);
      Path page = file.resolve("data").resolve("page-" + item.getLong(0) + ".dat");
      try (FileChannel data = FileChannel.open(page, StandardOpenOption.WRITE)) {
        data.write(ByteBuffer.allocate(item.getInt(12)), item.getInt(8));
      }
      index.write(ByteBuffer.allocate(12), at + 20);
    }
    JsonObject said = run("inspect").get(0);
    assertEquals(1, said.get("unreadable").getAsInt());
    assertEquals(3 * EACH - 1, said.get("waiting").getAsInt());
    assertEquals(3 * EACH - 1, run("export").size());
  }

  @Test
  void pointsComeOutAsTheyCanBePutAgain() throws IOException {
    List<JsonObject> points = run("export", "--metric", "text");
    assertEquals(EACH, points.size());
    JsonObject last = points.get(EACH - 1);
    assertEquals("text", last.get("name").getAsString());
    assertEquals(EACH - 1, last.get("timestamp").getAsLong());
    assertEquals("naïve \"99\"\n", last.get("value").getAsString());
    assertEquals("string", last.get("type").getAsString());
    assertEquals("ü", last.getAsJsonObject("tags").get("a").getAsString());
    assertEquals(77, last.get("ttl").getAsInt());
    List<JsonObject> all = run("export");
    assertEquals(3 * EACH, all.size());
    assertEquals(-1, all.get(3).get("value").getAsLong());
    assertEquals(1.5, all.get(4).get("value").getAsDouble());
  }

  @Test
  void whatIsDroppedIsGoneAndTheOthersAreThere() throws IOException {
    assertEquals(EACH, run("drop", "--metric", "half").get(0).get("dropped").getAsInt());
    List<JsonObject> left = run("export");
    assertEquals(2 * EACH, left.size());
    assertFalse(left.stream().anyMatch(point -> point.get("name").getAsString().equals("half")));
    try (QueueFile file = open();
        QueueReader reader = file.reader()) {
      assertTrue(reader.load(file.tail()));
      assertEquals(5_000, reader.takenAt());
    }
    assertEquals(2 * EACH, run("drop", "--all").get(0).get("dropped").getAsInt());
    assertEquals(0, run("inspect").get(0).get("waiting").getAsInt());
    assertNothingIsLeftBeside();
  }

  private void assertNothingIsLeftBeside() throws IOException {
    try (Stream<Path> beside = Files.list(folder)) {
      assertEquals(1, beside.count(), "something is left behind");
    }
  }

  /** Between its renames: KairosDB must not begin with an empty queue, nor the tool see none. */
  @Test
  void aDropThatWasEndedInTheMiddleLosesNothing() throws IOException {
    Path file = folder.resolve(QueueFile.NAME);
    run("drop", "--metric", "half");
    Files.createDirectories(folder.resolve("kairos_queue-replaced").resolve("data"));
    Files.move(file, folder.resolve("kairos_queue-kept"));
    open().close();
    assertEquals(2 * EACH, run("export").size());
    Files.move(file, folder.resolve("kairos_queue-kept"));
    assertEquals(2 * EACH, run("export").size());
    // Before the first of them the old one is the queue, and the new one may be half written.
    for (String left : List.of("kairos_queue-kept", "kairos_queue-others/kairos_queue")) {
      Files.createDirectories(folder.resolve(left).resolve("data"));
    }
    open().close();
    assertEquals(2 * EACH, run("export").size());
    assertNothingIsLeftBeside();
    Files.createDirectories(folder.resolve("kairos_queue-others").resolve("kairos_queue"));
    run("drop", "--metric", "whole");
    assertEquals(EACH, run("export").size());
    assertNothingIsLeftBeside();
  }

  /** As the old one was, which is gone by then: else a loss of power takes points. */
  @Test
  void whatADropKeepsIsOnTheDisk() throws IOException {
    OnDisk.assumed(folder);
    assertTrue(QueueFileTest.unwritten(folder) > 0, "the kernel wrote all of it by itself");
    run("drop", "--metric", "half");
    assertEquals(0, QueueFileTest.unwritten(folder));
    assertEquals(2 * EACH, run("export").size());
  }

  /** Wherever it is ended there is a whole queue, under a name that the next start knows. */
  @Test
  void theOldQueueGoesOnceTheNewOneIsThere() throws Exception {
    List<String> steps = new ArrayList<>();
    try (WatchService watch = folder.getFileSystem().newWatchService()) {
      folder.register(
          watch, StandardWatchEventKinds.ENTRY_CREATE, StandardWatchEventKinds.ENTRY_DELETE);
      run("drop", "--metric", "half");
      while (!steps.contains("ENTRY_DELETE kairos_queue-replaced")) {
        WatchKey seen = watch.poll(30, TimeUnit.SECONDS);
        assertNotNull(seen, () -> "no more than " + steps);
        seen.pollEvents().forEach(each -> steps.add(each.kind() + " " + each.context()));
        seen.reset();
      }
    }
    assertEquals(
        List.of(
            "ENTRY_CREATE kairos_queue-kept",
            "ENTRY_DELETE kairos_queue",
            "ENTRY_CREATE kairos_queue-replaced",
            "ENTRY_DELETE kairos_queue-kept",
            "ENTRY_CREATE kairos_queue",
            "ENTRY_DELETE kairos_queue-replaced"),
        steps.stream().filter(step -> !step.endsWith("-others")).toList());
  }

  @Test
  void aQueueInUseIsNotTouched() throws IOException {
    try (QueueFile running = open()) {
      IOException error = assertThrows(IOException.class, () -> run("drop", "--all"));
      assertTrue(error.getMessage().contains("in use"), error.toString());
      assertEquals(3 * EACH, run("export").size());
    }
    assertNothingIsLeftBeside();
  }

  @Test
  void whatIsNotClearIsRefused() {
    assertThrows(IllegalArgumentException.class, () -> run("drop"));
    assertThrows(IllegalArgumentException.class, () -> run("drop", "--all", "--metric", "m"));
    assertThrows(IllegalArgumentException.class, () -> run("look"));
    folder = folder.resolve("none");
    assertThrows(IOException.class, () -> run("inspect"));
  }
}
