package io.kairoscope.kairosdb.queue;

/**
 * A point in memory that is not yet acknowledged.
 *
 * @param index where it is in the file
 * @param time of the sensor, ms since 1970
 * @param takenAt when it was put, ms since 1970; the store's write time, so that writing it again,
 *     or in another order, has the same result
 * @param bytes of heap that are free once it is acknowledged
 */
record Point(long index, long time, long takenAt, int ttlS, byte[] value, int bytes) {}
