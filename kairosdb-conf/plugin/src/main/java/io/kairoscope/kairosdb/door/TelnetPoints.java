package io.kairoscope.kairosdb.door;

import io.kairoscope.kairosdb.queue.PointQueue;
import io.kairoscope.kairosdb.queue.RecordBuffer;
import io.kairoscope.kairosdb.queue.RefusedPointException;
import io.kairoscope.kairosdb.queue.SeriesBytes;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Set;
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
  private final SeriesBytes series = new SeriesBytes();
  private final RecordBuffer records = new RecordBuffer();
  // Why the queue does not take the series of this line.
  private String notAdmitted;

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
    byte[] name = bytes(line.get(1));
    if (name.length == 0) {
      throw new Refusal("the name of the metric is empty");
    }
    long time = time(line.get(0), line.get(2));
    series.metric(name, 0, name.length);
    int ttlS = tags(line.subList(FIRST_TAG, line.size()));
    records.clear();
    records.begin(series, ttlS, time);
    value(line.get(0), line.get(3));
    queue.add(records);
    queue.admit(records, (why, record) -> notAdmitted = why);
    if (records.count() == 0) {
      throw new Refusal(notAdmitted);
    }
    queue.put(records);
    queue.syncSoon();
  }

  /** Reads the tags; returns the time to live. */
  private int tags(List<String> words) throws Refusal, RefusedPointException {
    series.clearTags();
    int ttlS = 0;
    for (String word : words) {
      // As KairosDB: of a=b=c it takes a=b.
      String[] tag = word.split("=");
      if (tag.length < 2 || tag[0].isEmpty() || tag[1].isEmpty()) {
        throw new Refusal(Numbers.shown(word) + " is not a tag as name=value");
      }
      if (tag[0].equals(TTL)) {
        byte[] text = bytes(tag[1]);
        ttlS = values.ttl(JsonLexer.STRING, text, 0, text.length);
      } else {
        tag(tag[0], tag[1]);
      }
    }
    if (series.words() == 0) {
      tag("add", "tag"); // KairosDB's own, as it stores nothing without tags
    }
    if (!series.sort()) {
      throw new Refusal("a tag is there twice");
    }
    return ttlS;
  }

  private void tag(String... nameAndValue) throws RefusedPointException {
    for (String word : nameAndValue) {
      byte[] text = bytes(word);
      series.tag(text, 0, text.length);
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

  private void value(String command, String word) throws Refusal {
    byte[] text = bytes(word);
    if (command.equals("puts")) {
      values.write(records, values.type("string"), JsonLexer.STRING, text, 0, text.length);
    } else {
      values.write(records, null, JsonLexer.NUMBER, text, 0, text.length);
    }
  }

  private static byte[] bytes(String word) {
    return word.getBytes(StandardCharsets.UTF_8);
  }
}
