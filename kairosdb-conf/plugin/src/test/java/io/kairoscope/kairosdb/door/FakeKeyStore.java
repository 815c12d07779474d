package io.kairoscope.kairosdb.door;

import java.util.ArrayList;
import java.util.Date;
import java.util.List;
import java.util.concurrent.ConcurrentSkipListMap;
import org.kairosdb.core.datastore.ServiceKeyStore;
import org.kairosdb.core.datastore.ServiceKeyValue;
import org.kairosdb.core.exception.DatastoreException;

/** KairosDB's little store of keys, in memory; several nodes may share one. */
class FakeKeyStore implements ServiceKeyStore {
  final ConcurrentSkipListMap<String, String> values = new ConcurrentSkipListMap<>();
  volatile boolean fails;

  private void check() throws DatastoreException {
    if (fails) {
      throw new DatastoreException("the store is away");
    }
  }

  @Override
  public void setValue(String service, String serviceKey, String key, String value)
      throws DatastoreException {
    check();
    values.put(key, value);
  }

  @Override
  public ServiceKeyValue getValue(String service, String serviceKey, String key)
      throws DatastoreException {
    check();
    String value = values.get(key);
    return value == null ? null : new ServiceKeyValue(value, new Date());
  }

  @Override
  public Iterable<String> listServiceKeys(String service) {
    throw new UnsupportedOperationException();
  }

  @Override
  public Iterable<String> listKeys(String service, String serviceKey) throws DatastoreException {
    check();
    return List.copyOf(new ArrayList<>(values.keySet()));
  }

  @Override
  public Iterable<String> listKeys(String service, String serviceKey, String begin) {
    throw new UnsupportedOperationException();
  }

  @Override
  public void deleteKey(String service, String serviceKey, String key) throws DatastoreException {
    check();
    values.remove(key);
  }

  @Override
  public Date getServiceKeyLastModifiedTime(String service, String serviceKey) {
    throw new UnsupportedOperationException();
  }
}
