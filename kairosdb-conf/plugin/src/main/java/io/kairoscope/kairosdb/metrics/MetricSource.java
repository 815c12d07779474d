package io.kairoscope.kairosdb.metrics;

/** Something of this process that has metrics of its own. */
public interface MetricSource {
  /** Tells them, all since the start or as of now: whoever asks, and how often, changes nothing. */
  void tell(Exposition to);
}
