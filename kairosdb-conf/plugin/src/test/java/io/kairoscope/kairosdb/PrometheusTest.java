package io.kairoscope.kairosdb;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;
import org.kairosdb.core.DataPointSet;
import org.kairosdb.core.datapoints.DoubleDataPoint;
import org.kairosdb.core.datapoints.LongDataPoint;
import org.kairosdb.core.datapoints.StringDataPoint;

/** Names, labels and values that Prometheus reads. */
class PrometheusTest {
  @Test
  void aLineForTheNewestNumberOfEachSeries() {
    Prometheus text = new Prometheus();
    DataPointSet set = new DataPointSet("kairosdb.queue-x.size");
    set.addTag("host", "a\"b\\c\nd");
    set.addTag("9th.tag", "v");
    set.addDataPoint(new LongDataPoint(1, 5));
    set.addDataPoint(new LongDataPoint(2, 6));
    text.add(set);
    set = new DataPointSet("kairosdb.avg");
    set.addDataPoint(new DoubleDataPoint(1, 0.5));
    text.add(set);
    set = new DataPointSet("kairosdb.words");
    set.addDataPoint(new StringDataPoint(1, "no number"));
    text.add(set);
    text.add(new DataPointSet("kairosdb.empty"));
    assertEquals(
        "kairosdb_queue_x_size{_9th_tag=\"v\",host=\"a\\\"b\\\\c\\nd\"} 6\nkairosdb_avg 0.5\n",
        text.toString());
  }
}
