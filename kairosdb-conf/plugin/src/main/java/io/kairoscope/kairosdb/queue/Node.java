package io.kairoscope.kairosdb.queue;

import com.datastax.driver.core.Host;

/**
 * A storage node that writes are sent to. There is one object of each, so that it is compared by
 * what it is.
 */
final class Node {
  /** For showing only. */
  final String name;

  /** The driver's; null in tests, and for the node that stands for "whichever the driver takes". */
  final Host host;

  Node(String name, Host host) {
    this.name = name;
    this.host = host;
  }

  /** Whether the driver takes it for alive. */
  boolean up() {
    return host == null || host.isUp();
  }

  @Override
  public String toString() {
    return name;
  }
}
