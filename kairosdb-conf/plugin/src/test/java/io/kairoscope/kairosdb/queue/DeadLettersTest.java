package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.AbstractList;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.IntConsumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class DeadLettersTest {
  @TempDir Path folder;

  private static DeadLetters.Letter letter(String metric) {
    Point point = new Point(3, 5, 7, 9, new byte[] {1, 2}, null);
    return new DeadLetters.Letter(
        metric, new TreeMap<>(Map.of("a\"b", "<c>\n")), "kairos_long", point, 11, "no");
  }

  @Test
  void aLineHasAllThatIsNeededToPutThePointAgain() throws IOException {
    Path file = folder.resolve("dead_letters.jsonl");
    new DeadLetters(file).add(List.of(letter("ünicode"), letter("two")));
    List<String> lines = Files.readAllLines(file);
    assertEquals(2, lines.size());
    assertEquals(
        "{\"metric\":\"ünicode\",\"tags\":{\"a\\\"b\":\"<c>\\n\"},\"type\":\"kairos_long\","
            + "\"time\":5,\"value_base64\":\"AQI=\",\"ttl\":9,\"taken_at\":7,\"dead_at\":11,"
            + "\"reason\":\"no\"}",
        lines.get(0));
  }

  @Test
  void aTornLineDoesNotTakeTheNextWithIt() throws IOException {
    Path file = folder.resolve("dead_letters.jsonl");
    Files.writeString(file, "{\"metric\":\"to");
    new DeadLetters(file).add(List.of(letter("m")));
    new DeadLetters(file).add(List.of(letter("n")));
    List<String> lines = Files.readAllLines(file);
    JsonObject last = new JsonParser().parse(lines.get(2)).getAsJsonObject();
    assertEquals("n", last.get("metric").getAsString());
    assertEquals(3, lines.size());
  }

  private static DeadLetters.Letter large(int bytes) {
    Point point = new Point(3, 5, 7, 9, new byte[bytes], null);
    return new DeadLetters.Letter("m", new TreeMap<>(), "kairos_string", point, 11, "no");
  }

  /** Letters of 1 MB each; tells of each when it is asked for. */
  private static List<DeadLetters.Letter> letters(int count, IntConsumer asked) {
    return new AbstractList<>() {
      @Override
      public DeadLetters.Letter get(int index) {
        asked.accept(index);
        return large(1 << 20);
      }

      @Override
      public int size() {
        return count;
      }
    };
  }

  /** Together they would be the end of the process, and of the next one. */
  @Test
  void largeOnesAreNeverInMemoryTogether() throws IOException {
    Path file = folder.resolve("dead_letters.jsonl");
    DeadLetters dead = new DeadLetters(file);
    List<Long> sizes = new ArrayList<>();
    dead.add(
        letters(
            20,
            index -> {
              try {
                sizes.add(dead.bytes());
              } catch (IOException error) {
                throw new UncheckedIOException(error);
              }
            }));
    for (int i = 0; i < 20; i++) {
      long before = (long) i << 20;
      assertTrue(sizes.get(i) >= before, "of " + before + " bytes there are " + sizes.get(i));
    }
    assertEquals(20, Files.readAllLines(file).size());
  }

  @Test
  void allOrNone() throws IOException {
    Path file = folder.resolve("dead_letters.jsonl");
    DeadLetters dead = new DeadLetters(file);
    dead.add(List.of(letter("m")));
    long before = dead.bytes();
    List<DeadLetters.Letter> broken =
        letters(
            5,
            index -> {
              if (index == 4) {
                throw new IllegalStateException("no letter");
              }
            });
    assertThrows(IllegalStateException.class, () -> dead.add(broken));
    assertEquals(before, dead.bytes());
  }

  @Test
  void whatCannotBeWrittenIsSaid() {
    DeadLetters letters = new DeadLetters(folder.resolve("no such folder").resolve("file"));
    assertThrows(IOException.class, () -> letters.add(List.of(letter("m"))));
  }
}
