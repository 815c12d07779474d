package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kairoscope.kairosdb.metrics.Exposition;
import io.kairoscope.kairosdb.metrics.Parsed;
import java.util.Random;
import org.junit.jupiter.api.Test;

class NewSeriesTest {
  private static final long SECOND = 1_000_000_000;

  private long nowNs = -5 * SECOND; // System.nanoTime begins anywhere

  private NewSeries of(int most, int perS) {
    return new NewSeries(most, perS, () -> nowNs);
  }

  private static long taken(NewSeries series, long from, long to) {
    long count = 0;
    for (long key = from; key < to; key++) {
      count += series.take(key) ? 1 : 0;
    }
    return count;
  }

  private static double metric(NewSeries series, String name) {
    Exposition to = new Exposition();
    series.tell(to);
    return new Parsed(to.toString()).value("kairosdb_queue_new_series_" + name);
  }

  @Test
  void allSensorsMayBeNewAtOnceAsAfterAStart() {
    NewSeries series = of(50_000, 1);
    Random keys = new Random(1);
    for (int i = 0; i < 50_000; i++) {
      assertTrue(series.take(keys.nextLong()));
    }
    assertFalse(series.take(keys.nextLong()));
    assertEquals(50_000, metric(series, "total"));
    assertEquals(1, metric(series, "refused_points_total"));
  }

  @Test
  void whatIsKnownIsTakenWhateverElseComes() {
    NewSeries series = of(1_000, 10);
    assertEquals(500, taken(series, 0, 500));
    for (int round = 0; round < 1_000; round++) {
      nowNs += SECOND;
      // Somebody makes up a series for each point; ten a second are taken.
      taken(series, 1_000_000 + round * 1_000L, 1_000_000 + round * 1_000L + 200);
      assertEquals(500, taken(series, 0, 500), "round " + round);
    }
  }

  @Test
  void soManyASecondAreTakenForGood() {
    NewSeries series = of(100, 10);
    assertEquals(100, taken(series, 1, 1_000));
    assertEquals(0, taken(series, 1_000, 2_000));
    for (int i = 1; i <= 5; i++) {
      nowNs += SECOND;
      assertEquals(10, taken(series, i * 10_000, i * 10_000 + 1_000));
    }
    nowNs += SECOND / 10;
    assertEquals(1, taken(series, 100_000, 101_000));
    // What was not used is not lost, but never more than so many.
    nowNs += 3_600 * SECOND;
    assertEquals(100, taken(series, 200_000, 201_000));
  }

  @Test
  void aSeriesThatWasRefusedIsTakenLater() {
    NewSeries series = of(1, 1);
    assertTrue(series.take(1));
    assertFalse(series.take(2));
    nowNs += SECOND;
    assertTrue(series.take(2));
    assertTrue(series.take(2));
  }

  @Test
  void whatHasNotComeForLongIsForgotten() {
    NewSeries series = of(10, 1_000_000);
    assertTrue(series.take(7));
    nowNs += SECOND;
    taken(series, 100, 110);
    nowNs += SECOND;
    taken(series, 200, 210);
    nowNs += SECOND;
    taken(series, 300, 310);
    double before = metric(series, "total");
    nowNs += SECOND;
    assertTrue(series.take(7));
    assertEquals(before + 1, metric(series, "total"));
  }

  @Test
  void zeroIsASeriesToo() {
    NewSeries series = of(2, 1);
    assertTrue(series.take(0));
    assertTrue(series.take(0));
    assertEquals(1, metric(series, "total"));
  }
}
