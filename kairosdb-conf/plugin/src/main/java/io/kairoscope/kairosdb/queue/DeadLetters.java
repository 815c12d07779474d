package io.kairoscope.kairosdb.queue;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;

/**
 * The file of points that were taken and that the store refuses for good: a JSON object a line,
 * with all that is needed to put the point again once its cause is mended. What is written here is
 * on the disk when it is said to be.
 */
final class DeadLetters {
  private final Path file;
  private final Gson gson = new GsonBuilder().disableHtmlEscaping().serializeNulls().create();

  /**
   * A point and why it is here.
   *
   * @param type the datastore's name of it
   */
  record Letter(
      String metric,
      SortedMap<String, String> tags,
      String type,
      Point point,
      long deadAtMs,
      String reason) {}

  /**
   * @param file {@code dead_letters.jsonl} in the queue's folder; made when there is a first one
   */
  DeadLetters(Path file) {
    this.file = file;
  }

  /** Size of the file; 0 if there is none. */
  long bytes() throws IOException {
    return Files.exists(file) ? Files.size(file) : 0;
  }

  /** Adds all of them, or throws and has added none. */
  synchronized void add(List<Letter> letters) throws IOException {
    StringBuilder lines = new StringBuilder();
    for (Letter letter : letters) {
      lines.append(line(letter)).append('\n');
    }
    boolean first = !Files.exists(file);
    // Opened each time, as it is rare, and somebody may have moved the file away.
    try (FileChannel channel =
        FileChannel.open(
            file,
            StandardOpenOption.CREATE,
            StandardOpenOption.READ,
            StandardOpenOption.WRITE)) {
      long end = channel.size();
      try {
        // A line that was torn by a crash must not take the next one with it.
        String start = end == 0 || endsWithLine(channel, end) ? "" : "\n";
        ByteBuffer bytes =
            ByteBuffer.wrap((start + lines).getBytes(StandardCharsets.UTF_8));
        long at = end;
        while (bytes.hasRemaining()) {
          at += channel.write(bytes, at);
        }
        channel.force(true);
      } catch (IOException error) {
        channel.truncate(end);
        throw error;
      }
    }
    if (first) {
      forceFolder();
    }
  }

  private static boolean endsWithLine(FileChannel channel, long end) throws IOException {
    ByteBuffer last = ByteBuffer.allocate(1);
    return channel.read(last, end - 1) == 1 && last.get(0) == '\n';
  }

  /** Else a file that is new may be gone after a power cut. */
  private void forceFolder() throws IOException {
    Path folder = file.toAbsolutePath().getParent();
    try (FileChannel channel = FileChannel.open(folder, StandardOpenOption.READ)) {
      channel.force(true);
    }
  }

  private String line(Letter letter) {
    Point point = letter.point;
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("metric", letter.metric);
    fields.put("tags", letter.tags);
    fields.put("type", letter.type);
    fields.put("time", point.time());
    fields.put("value_base64", Base64.getEncoder().encodeToString(point.value()));
    fields.put("ttl", point.ttlS());
    fields.put("taken_at", point.takenAt());
    fields.put("dead_at", letter.deadAtMs);
    fields.put("reason", letter.reason);
    return gson.toJson(fields);
  }
}
