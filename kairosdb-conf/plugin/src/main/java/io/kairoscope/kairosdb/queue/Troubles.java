package io.kairoscope.kairosdb.queue;

import io.kairoscope.kairosdb.queue.Store.Table;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.function.LongSupplier;

/**
 * What the store refuses whatever is written, and somebody has to mend: a table that is gone, a
 * permission, a driver that does not fit. Until a write of the table succeeds.
 */
final class Troubles {
  private static final int REASON = 500;

  private final LongSupplier nowMs;
  private final Map<Table, Trouble> troubles = new EnumMap<>(Table.class);
  // So that a write that succeeds, as nearly all do, costs nothing here.
  private volatile boolean any;

  private record Trouble(long sinceMs, String sentence) {}

  Troubles(LongSupplier nowMs) {
    this.nowMs = nowMs;
  }

  synchronized void refused(Table table, Node node, Throwable error) {
    Trouble before = troubles.get(table);
    long since = before == null ? nowMs.getAsLong() : before.sinceMs;
    String sentence =
        "the store refuses all that is written to "
            + table.tables
            + " since "
            + Instant.ofEpochMilli(since).truncatedTo(ChronoUnit.SECONDS)
            + ", at "
            + node
            + ": "
            + reason(error);
    troubles.put(table, new Trouble(since, sentence));
    any = true;
  }

  boolean any() {
    return any;
  }

  synchronized void written(Table table) {
    troubles.remove(table);
    any = !troubles.isEmpty();
  }

  /** A sentence for each; empty is good. */
  synchronized List<String> sentences() {
    List<String> sentences = new ArrayList<>();
    troubles.values().forEach(trouble -> sentences.add(trouble.sentence));
    return sentences;
  }

  /** An error in a line of bounded length. */
  static String reason(Throwable error) {
    String reason = String.valueOf(error).replaceAll("\\s+", " ");
    return reason.length() > REASON ? reason.substring(0, REASON) : reason;
  }
}
