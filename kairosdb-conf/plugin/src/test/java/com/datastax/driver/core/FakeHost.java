package com.datastax.driver.core;

import java.net.InetSocketAddress;

/** A host without a cluster; in the driver's package, where the constructor is. */
public final class FakeHost {
  // Never connected: a host asks it for its policies.
  private static final Cluster CLUSTER =
      Cluster.builder().addContactPoint("127.0.0.1").withoutMetrics().build();

  private FakeHost() {}

  /** One at a port of this machine that is taken for up. */
  public static Host at(int port) {
    InetSocketAddress address = new InetSocketAddress("127.0.0.1", port);
    Host made = new Host(() -> address, (host, policy) -> null, CLUSTER.manager);
    made.setUp();
    return made;
  }
}
