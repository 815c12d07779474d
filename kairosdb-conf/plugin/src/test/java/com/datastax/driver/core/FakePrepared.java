package com.datastax.driver.core;

import java.lang.reflect.Proxy;

/** A prepared statement without a server; in the driver's package, where what it is made of is. */
public final class FakePrepared {
  private FakePrepared() {}

  /** One whose values, in this order, have these types, with the first as the partition's key. */
  public static PreparedStatement of(DataType... types) {
    ColumnDefinitions.Definition[] values = new ColumnDefinitions.Definition[types.length];
    for (int i = 0; i < types.length; i++) {
      values[i] = new ColumnDefinitions.Definition("keyspace", "table", "v" + i, types[i]);
    }
    ColumnDefinitions variables =
        new ColumnDefinitions(values, CodecRegistry.DEFAULT_INSTANCE);
    PreparedId id =
        new PreparedId(
            new PreparedId.PreparedMetadata(MD5Digest.wrap(new byte[16]), variables),
            new PreparedId.PreparedMetadata(null, null),
            new int[] {0},
            ProtocolVersion.V4);
    return (PreparedStatement)
        Proxy.newProxyInstance(
            FakePrepared.class.getClassLoader(),
            new Class<?>[] {PreparedStatement.class},
            (self, method, arguments) ->
                switch (method.getName()) {
                  case "getVariables" -> variables;
                  case "getPreparedId" -> id;
                  case "getCodecRegistry" -> CodecRegistry.DEFAULT_INSTANCE;
                  case "bind" -> new BoundStatement((PreparedStatement) self);
                  case "isTracing" -> false;
                  default -> null;
                });
  }
}
