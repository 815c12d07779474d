package io.kairoscope.kairosdb.metrics;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;

/** What Prometheus reads, and what is not written for it. */
class ExpositionTest {
  @Test
  void eachKindAsItIsWritten() {
    Exposition to = new Exposition();
    Histogram times = Histogram.seconds(TimeUnit.MILLISECONDS, 50, 1_000);
    for (int ms : new int[] {50, 51, 1_000, 1_001}) {
      times.observe(ms);
    }
    to.counter("kairosdb_a_total", "Of a\\b\nc.").value(3, "from", "a\"b\\c\nd", "to", "");
    to.gauge("kairosdb_b", "B.").value(-0.5).value(1L << 40, "x", "y");
    to.summary("kairosdb_c_seconds", "C.").values(2, 0.25);
    to.histogram("kairosdb_d_seconds", "D.").values(times, "of", "x");
    assertEquals(
        """
        # HELP kairosdb_a_total Of a\\\\b\\nc.
        # TYPE kairosdb_a_total counter
        kairosdb_a_total{from="a\\"b\\\\c\\nd",to=""} 3
        # HELP kairosdb_b B.
        # TYPE kairosdb_b gauge
        kairosdb_b -0.5
        kairosdb_b{x="y"} 1099511627776
        # HELP kairosdb_c_seconds C.
        # TYPE kairosdb_c_seconds summary
        kairosdb_c_seconds_count 2
        kairosdb_c_seconds_sum 0.25
        # HELP kairosdb_d_seconds D.
        # TYPE kairosdb_d_seconds histogram
        kairosdb_d_seconds_bucket{of="x",le="0.05"} 1
        kairosdb_d_seconds_bucket{of="x",le="1"} 3
        kairosdb_d_seconds_bucket{of="x",le="+Inf"} 4
        kairosdb_d_seconds_count{of="x"} 4
        kairosdb_d_seconds_sum{of="x"} 2.102
        """,
        to.toString());
    new Parsed(to.toString());
  }

  @Test
  void aClockThatIsSetBackTakesNothingFromASum() {
    Histogram times = Histogram.seconds(TimeUnit.MILLISECONDS, 50);
    times.observe(2_000);
    times.observe(-1_000);
    assertEquals(2, times.count());
    assertEquals(2, times.sum());
    assertEquals(1, times.cumulative()[0]);
  }

  @Test
  void whatPrometheusWouldNotTakeIsRefused() {
    List<Consumer<Exposition>> wrongs =
        List.of(
            to -> to.counter("kairosdb_a", "Not total."),
            to -> to.gauge("kairosdb_a_total", "Total."),
            to -> to.gauge("kairosdb.a", "A dot."),
            to -> to.gauge("kairosdb_a", "A.").value(1, "b-c", "d"),
            to -> to.gauge("kairosdb_a", "A.").value(1).value(2),
            to -> to.counter("kairosdb_a_total", "A.").value(Double.NaN),
            to -> to.counter("kairosdb_a_total", "A.").value(-1),
            to -> to.counter("kairosdb_a_total", "A.").values(1, 1),
            to -> to.summary("kairosdb_a", "A.").value(1),
            to -> {
              to.gauge("kairosdb_a", "A.").value(1);
              to.gauge("kairosdb_a", "A.").value(1, "b", "c");
            });
    for (Consumer<Exposition> wrong : wrongs) {
      assertThrows(IllegalArgumentException.class, () -> wrong.accept(new Exposition()));
    }
  }

  @Test
  void theReaderOfTheTestsIsStrict() {
    String good = "# HELP kairosdb_a_total A.\n# TYPE kairosdb_a_total counter\nkairosdb_a_total 1\n";
    new Parsed(good);
    for (String wrong :
        List.of(
            good.replace("\nkairosdb_a_total 1", "\nkairosdb_a_total NaN"),
            good.replace("# HELP kairosdb_a_total A.\n", ""),
            good.replace("_total", ""),
            good + good,
            good + "kairosdb_b_total 1\n",
            good.trim(),
            good.replace("total 1", "total{a=\"\\x\"} 1"),
            good.replace("total 1", "total{a=\"b\",a=\"c\"} 1"))) {
      assertThrows(AssertionError.class, () -> new Parsed(wrong), wrong);
    }
  }
}
