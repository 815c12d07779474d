package io.kairoscope.kairosdb.door;

import com.google.common.collect.ImmutableSortedMap;
import io.kairoscope.kairosdb.queue.PointQueue;
import io.kairoscope.kairosdb.queue.RefusedPointException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Set;
import org.kairosdb.core.DataPoint;
import org.kairosdb.core.KairosDataPointFactory;

/**
 * Lines of put, putm and puts, as KairosDB's PutCommand, PutMillisecondCommand and PutStringCommand
 * read them; numbers by the rules of the REST door. KairosDB's take 1.0e400 for an infinity, which
 * no query returns, and no 1e5 at all. Not for two threads.
 */
final class TelnetPoints {
  private static final Set<String> COMMANDS = Set.of("put", "putm", "puts");
  private static final String TTL = "kairos_opt.ttl";
  // KairosDB's, for 'put': what is smaller is seconds.
  private static final long FIRST_MS = 3_000_000_000L;
  private static final int FIRST_TAG = 4;

  private final PointQueue queue;
  private final Values values;

  TelnetPoints(PointQueue queue, KairosDataPointFactory factories) {
    this.queue = queue;
    values = new Values(factories);
  }

  static boolean isCommand(String word) {
    return COMMANDS.contains(word);
  }

  void put(List<String> line) throws Refusal, RefusedPointException {
    if (line.size() < FIRST_TAG) {
      throw new Refusal("a name, a time and a value are needed");
    }
    String name = line.get(1);
    if (name.isEmpty()) {
      throw new Refusal("the name of the metric is empty");
    }
    long time = time(line.get(0), line.get(2));
    ImmutableSortedMap.Builder<String, String> tags = ImmutableSortedMap.naturalOrder();
    int ttlS = 0;
    boolean any = false;
    for (String word : line.subList(FIRST_TAG, line.size())) {
      // As KairosDB: of a=b=c it takes a=b.
      String[] tag = word.split("=");
      if (tag.length < 2 || tag[0].isEmpty() || tag[1].isEmpty()) {
        throw new Refusal(Numbers.shown(word) + " is not a tag as name=value");
      }
      if (tag[0].equals(TTL)) {
        byte[] text = bytes(tag[1]);
        ttlS = values.ttl(JsonLexer.STRING, text, 0, text.length);
      } else {
        tags.put(tag[0], tag[1]);
        any = true;
      }
    }
    if (!any) {
      tags.put("add", "tag"); // KairosDB's own, as it stores nothing without tags
    }
    try {
      queue.put(name, tags.build(), point(line.get(0), time, line.get(3)), ttlS);
    } catch (IllegalArgumentException twice) {
      throw new Refusal("a tag is there twice");
    }
  }

  private long time(String command, String word) throws Refusal {
    byte[] text = bytes(word);
    long time = values.timestamp(JsonLexer.NUMBER, text, 0, text.length);
    if (!command.equals("put") || time >= FIRST_MS) {
      return time;
    }
    if (time < Long.MIN_VALUE / 1000) {
      throw new Refusal("timestamp " + word + " is out of range");
    }
    return time * 1000;
  }

  private DataPoint point(String command, long time, String word) throws Refusal {
    byte[] text = bytes(word);
    if (command.equals("puts")) {
      return values.point(time, "string", JsonLexer.STRING, text, 0, text.length);
    }
    return values.point(time, null, JsonLexer.NUMBER, text, 0, text.length);
  }

  private static byte[] bytes(String word) {
    return word.getBytes(StandardCharsets.UTF_8);
  }
}
