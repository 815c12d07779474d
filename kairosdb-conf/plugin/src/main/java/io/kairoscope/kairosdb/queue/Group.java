package io.kairoscope.kairosdb.queue;

import java.util.List;

/** All points of a series that waited when it was released, in the order they were put. */
record Group(Series series, List<Point> points) {}
