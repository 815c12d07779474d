package io.kairoscope.kairosdb.queue;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonIOException;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.Writer;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
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

  /**
   * Adds all of them, or throws and has added none. One after the other: a thousand, of which each
   * may have megabytes, are never in memory together as text.
   */
  synchronized void add(List<Letter> letters) throws IOException {
    boolean first = !Files.exists(file);
    // Opened each time, as it is rare, and somebody may have moved the file away.
    try (FileChannel channel =
        FileChannel.open(
            file,
            StandardOpenOption.CREATE,
            StandardOpenOption.READ,
            StandardOpenOption.WRITE)) {
      long end = channel.size();
      boolean added = false;
      try {
        write(letters, channel, end);
        channel.force(true);
        added = true;
      } finally {
        if (!added) {
          channel.truncate(end);
        }
      }
    }
    if (first) {
      forceFolder();
    }
  }

  private void write(List<Letter> letters, FileChannel channel, long end) throws IOException {
    // Not closed, as that would close the channel; what it has is flushed.
    Writer lines =
        new BufferedWriter(
            new OutputStreamWriter(Channels.newOutputStream(channel), StandardCharsets.UTF_8));
    // A line that was torn by a crash must not take the next one with it.
    if (end > 0 && !endsWithLine(channel, end)) {
      lines.write('\n');
    }
    channel.position(end);
    for (Letter letter : letters) {
      try {
        gson.toJson(fields(letter), lines);
      } catch (JsonIOException error) {
        throw new IOException(error.getCause());
      }
      lines.write('\n');
    }
    lines.flush();
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

  private static Map<String, Object> fields(Letter letter) {
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
    return fields;
  }
}
