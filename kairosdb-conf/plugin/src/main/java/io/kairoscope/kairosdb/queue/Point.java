package io.kairoscope.kairosdb.queue;

/**
 * A point that was released and is on its way to the store.
 *
 * @param index where it is in the file
 * @param time of the sensor, ms since 1970
 * @param takenAt when it was put, ms since 1970; the store's write time, so that writing it again,
 *     or in another order, has the same result
 * @param ttlS as it came with the point; 0 is "none given"
 * @param value as the store keeps it
 * @param release what it was released with
 * @param carried bytes of heap of what it has in common with others, and that go with it
 */
record Point(
    long index, long time, long takenAt, int ttlS, byte[] value, Release release, int carried) {
  Point(long index, long time, long takenAt, int ttlS, byte[] value, Release release) {
    this(index, time, takenAt, ttlS, value, release, 0);
  }

  Point carrying(int bytes) {
    return new Point(index, time, takenAt, ttlS, value, release, bytes);
  }
}
