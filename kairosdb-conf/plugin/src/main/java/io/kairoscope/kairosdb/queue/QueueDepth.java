package io.kairoscope.kairosdb.queue;

/** How much a queue processor has, for whoever waits for it to be stored. */
public interface QueueDepth {
  /** Points taken that the store has not acknowledged. */
  long waiting();

  /** Points that a restart would write again. */
  long sinceCheckpoint();
}
