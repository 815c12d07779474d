package io.kairoscope.kairosdb.queue;

import com.google.common.collect.SetMultimap;
import java.io.IOException;
import java.util.function.LongPredicate;

/**
 * The series that a query asks for, as far as they were found among the points that wait: it is true
 * of their keys. For one thread.
 */
final class Wanted implements LongPredicate, AutoCloseable {
  // Mostly empty: whatever is not among a few series is in none of its rows, and known to be at once.
  private static final int SPARSE = 1 << 10;

  private final LongPredicate ofMetric;
  private final TagFilter tags;
  private final PointFile file;
  private final PointFile.Reader own;
  private final PointCodec codec;
  private final KeyTable found = new KeyTable(false, SPARSE);

  /**
   * @param tags of each name one of its values; empty is all series of the metric
   */
  Wanted(String metric, SetMultimap<String, String> tags, PointFile file, PointCodec codec)
      throws IOException {
    ofMetric = RecordBuffer.ofMetric(metric);
    this.tags = new TagFilter(tags);
    this.file = file;
    this.codec = codec;
    own = file.reader();
  }

  @Override
  public boolean test(long key) {
    return ofMetric.test(key) && (tags.isEmpty() || found.has(key));
  }

  /** Points that wait. */
  interface Points {
    void forEach(LongPredicate wanted, Entries.Each each);
  }

  /** Looks through points; whether there are any of such series. */
  boolean isAnyIn(Entries.View view) throws IOException {
    return tags.isEmpty() ? view.hasAny(this) : found(view::forEach);
  }

  /** Looks through points, for what is of such series. */
  void lookIn(Points points) throws IOException {
    if (!tags.isEmpty()) {
      found(points);
    }
  }

  private boolean found(Points points) throws IOException {
    SeriesEnds ends = new SeriesEnds();
    points.forEach(ofMetric, ends);
    return ends.having(this::hasTags, own, found);
  }

  private boolean hasTags(long index) throws IOException {
    // Else torn, or stored meanwhile and gone with its page.
    int tagsAt = index >= file.tail() && own.load(index) ? codec.tagsAt(own) : 0;
    return tagsAt > 0 && tags.areIn(own.bytes(), tagsAt);
  }

  @Override
  public void close() {
    own.close();
  }
}
