package io.kairoscope.kairosdb.queue;

/**
 * One point as it comes from a sensor, or back from the file: what is stored of it, and of which
 * series it is.
 *
 * @param time of the sensor, ms since 1970
 * @param ttlS as it came with the point; 0 is "none given"
 * @param value as the store keeps it
 */
record Sample(Series series, long time, int ttlS, byte[] value) {}
