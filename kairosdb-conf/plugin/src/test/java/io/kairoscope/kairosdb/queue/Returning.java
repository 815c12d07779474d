package io.kairoscope.kairosdb.queue;

import java.util.Collection;
import java.util.Deque;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.Supplier;

/** In place of the queue: hands out at once what is given back to it. */
final class Returning implements Settler.Queue {
  private final Consumer<Collection<Point>> done;
  private final Supplier<Writer> writer;

  Returning(Consumer<Collection<Point>> done, Supplier<Writer> writer) {
    this.done = done;
    this.writer = writer;
  }

  @Override
  public void done(Collection<Point> points) {
    done.accept(points);
  }

  @Override
  public void giveBack(RowKey rowKey, Deque<Point> left) {
    Series series =
        new Series(rowKey.getMetricName(), rowKey.getTags(), rowKey.getDataType());
    List<Point> points = List.copyOf(left);
    left.clear();
    writer.get().write(List.of(new Group(series, points)));
  }
}
