package io.kairoscope.kairosdb;

import io.kairoscope.kairosdb.metrics.Exposition;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * KairosDB's own metrics (1.3.0-1) as families of Prometheus. {@code count} and {@code sum} of what
 * is a summary here are two metrics of KairosDB.
 *
 * <p>Left out are: {@code kairosdb.http.ingest_time}, by a clock that may be set and with the time
 * of senders in it; {@code …client.requests_timer}, a sample of the last minutes; {@code
 * kairosdb.metric_counters}, a series for each metric of the sensors.
 */
final class KairosDbFamilies {
  private static final String CLIENT = "kairosdb.datastore.cassandra.client.";
  private static final String RETRIES = "kairosdb.datastore.cassandra.retry_count";
  private static final String BATCHES = "kairosdb.datastore.cassandra.write_batch_size";
  private static final Map<String, String> CONNECTION = Map.of("cluster", "connection");
  /** Between a metric's name and what its tag of this name says. */
  static final String METHOD = "/";

  private static final double MS = 1e3;
  private static final double US = 1e6;

  /** What KairosDB's figure is, and so what becomes of it. */
  enum Kind {
    /** Begins anew when it is told: summed up. */
    COUNTER,
    /** As COUNTER, with the number of values and their sum. */
    SUMMARY,
    /** Since the start, as it is told. */
    TOTAL,
    /** As of now. */
    GAUGE
  }

  /**
   * A family.
   *
   * @param unit KairosDB's figures are divided by it
   * @param ofStock whether only KairosDB's own queue and doors have it
   */
  record Family(
      Kind kind, String name, String help, double unit, boolean ofStock, List<Source> sources) {
    boolean isAsOfNow() {
      return kind == Kind.TOTAL || kind == Kind.GAUGE;
    }

    Exposition.Family begin(Exposition to) {
      return switch (kind) {
        case COUNTER, TOTAL -> to.counter(name, help);
        case SUMMARY -> to.summary(name, help);
        case GAUGE -> to.gauge(name, help);
      };
    }
  }

  /**
   * A metric of KairosDB, or that part of it which is about one method.
   *
   * @param tags those of its tags that are labels, and the names that they have as such
   * @param fixed labels that all of it has, name, value, name, value …
   */
  record Source(String name, Map<String, String> tags, List<String> fixed) {
    List<String> labels(Map<String, String> of) {
      List<String> labels = new ArrayList<>(fixed);
      tags.keySet().stream()
          .sorted()
          .forEach(tag -> labels.addAll(List.of(tags.get(tag), of.getOrDefault(tag, ""))));
      return labels;
    }
  }

  static final List<Family> ALL =
      List.of(
          new Family(
              Kind.COUNTER,
              "kairosdb_ingest_points_total",
              "Points that were taken; code is the answer to their request, none if not known.",
              1,
              true,
              List.of(
                  source("kairosdb.http.ingest_count", "protocol", "rest", "code", ""),
                  telnet("put"),
                  telnet("putm"),
                  telnet("puts"))),
          new Family(
              Kind.SUMMARY,
              "kairosdb_write_batch_rows",
              "Rows of a batch that was written, by table.",
              1,
              true,
              List.of(new Source(BATCHES, Map.of("table", "table"), List.of()))),
          summary(
              "kairosdb_write_duration_seconds",
              "Writing a batch of KairosDB's own queue, with its retries.",
              US,
              true,
              "kairosdb.ingest_executor.write_time_micro"),
          summary(
              "kairosdb_query_request_duration_seconds",
              "Requests with queries.",
              MS,
              false,
              "kairosdb.http.request_time"),
          summary(
              "kairosdb_query_duration_seconds",
              "Queries of a metric, of which a request may have several, with their answer.",
              MS,
              false,
              "kairosdb.http.query_time"),
          summary(
              "kairosdb_query_store_duration_seconds",
              "Queries of a metric, until all of its points were read.",
              MS,
              false,
              "kairosdb.datastore.query_time"),
          summary(
              "kairosdb_query_index_duration_seconds",
              "Reading the index for a query.",
              MS,
              false,
              "kairosdb.datastore.cassandra.key_query_time"),
          summary(
              "kairosdb_query_index_rows",
              "Entries of the index that were read for a query.",
              1,
              false,
              "kairosdb.datastore.cassandra.raw_row_key_count"),
          summary(
              "kairosdb_query_rows",
              "Rows that were read for a query: those of the index with the right tags.",
              1,
              false,
              "kairosdb.datastore.cassandra.row_key_count"),
          summary(
              "kairosdb_query_filled_rows",
              "Rows that had points in the time of the query.",
              1,
              false,
              "kairosdb.datastore.query_row_count"),
          summary(
              "kairosdb_query_points",
              "Points that were read for a query.",
              1,
              false,
              "kairosdb.datastore.query_sample_size"),
          summary(
              "kairosdb_query_waiting",
              "Queries that waited as another came; counted if there were any.",
              1,
              false,
              "kairosdb.datastore.queries_waiting"),
          new Family(
              Kind.COUNTER,
              "kairosdb_query_collisions_total",
              "Queries that waited for one that was the same.",
              1,
              false,
              List.of(source("kairosdb.datastore.query_collisions"))),
          new Family(
              Kind.COUNTER,
              "kairosdb_filter_skipped_points_total",
              "Points that KairosDB's filter plugin threw away.",
              1,
              false,
              List.of(source("kairosdb.filter.skipped_metrics"))),
          new Family(
              Kind.COUNTER,
              "kairosdb_store_retries_total",
              "Requests that the driver sent to another storage node, by the reason.",
              1,
              false,
              List.of(
                  new Source(
                      RETRIES, Map.of("cluster", "connection", "retry_type", "reason"), List.of()))),
          client(
              Kind.TOTAL, "connection_errors_total", "Connections that broke.", "connection_errors"),
          client(Kind.TOTAL, "sent_bytes_total", "Bytes sent to storage nodes.", "bytes_sent"),
          client(
              Kind.TOTAL,
              "received_bytes_total",
              "Bytes received from storage nodes.",
              "bytes_received"),
          client(Kind.GAUGE, "known_nodes", "Storage nodes that the driver knows.", "known_hosts"),
          client(
              Kind.GAUGE,
              "connected_nodes",
              "Storage nodes that the driver is connected to.",
              "connected_to_hosts"),
          client(
              Kind.GAUGE, "open_connections", "Connections to storage nodes.", "open_connections"),
          client(
              Kind.GAUGE,
              "trashed_connections",
              "Connections that are being closed, as they do not answer in time.",
              "trashed_connections"),
          new Family(
              Kind.GAUGE,
              "kairosdb_store_driver_waiting_tasks",
              "Tasks that wait in the driver.",
              1,
              false,
              List.of(
                  tasks("executor_queue_depth", "executor"),
                  tasks("blocking_executor_queue_depth", "blocking_executor"),
                  tasks("reconnection_scheduler_queue_size", "reconnection"),
                  tasks("task_scheduler_queue_size", "scheduler"))));

  private KairosDbFamilies() {}

  private static Source source(String name, String... labels) {
    return new Source(name, Map.of(), List.of(labels));
  }

  private static Source telnet(String command) {
    return source(
        "kairosdb.protocol.telnet_request_count" + METHOD + command,
        "protocol",
        "telnet",
        "code",
        "");
  }

  private static Source tasks(String metric, String queue) {
    return new Source(CLIENT + metric, CONNECTION, List.of("queue", queue));
  }

  private static Family summary(
      String name, String help, double unit, boolean ofStock, String source) {
    return new Family(Kind.SUMMARY, name, help, unit, ofStock, List.of(source(source)));
  }

  private static Family client(Kind kind, String what, String help, String metric) {
    return new Family(
        kind,
        "kairosdb_store_" + what,
        help,
        1,
        false,
        List.of(new Source(CLIENT + metric, CONNECTION, List.of())));
  }
}
