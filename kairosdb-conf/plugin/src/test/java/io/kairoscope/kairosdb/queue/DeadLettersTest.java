package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
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

  @Test
  void whatCannotBeWrittenIsSaid() {
    DeadLetters letters = new DeadLetters(folder.resolve("no such folder").resolve("file"));
    assertThrows(IOException.class, () -> letters.add(List.of(letter("m"))));
  }
}
