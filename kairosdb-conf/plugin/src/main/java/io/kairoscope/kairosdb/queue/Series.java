package io.kairoscope.kairosdb.queue;

import java.util.SortedMap;

/**
 * What points must share to be of one partition of the store (in each row of three weeks): the
 * metric, the tags and the type of the values.
 */
record Series(String metric, SortedMap<String, String> tags, String type) {}
