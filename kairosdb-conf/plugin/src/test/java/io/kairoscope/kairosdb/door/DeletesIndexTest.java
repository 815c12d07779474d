package io.kairoscope.kairosdb.door;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kairoscope.kairosdb.queue.IndexedRows;
import java.nio.file.Path;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.kairosdb.core.datastore.QueryMetric;
import org.kairosdb.core.exception.DatastoreException;

/** Deletes over writers with their caches: the last point of a series is found, too. */
class DeletesIndexTest {
  private static final class Queue extends FakeQueue {
    private final IndexedRows rows;

    Queue(IndexedRows rows) {
      this.rows = rows;
    }

    @Override
    public void reindex(String metric, long sinceMs) {
      rows.reindex(metric, sinceMs);
    }

    @Override
    public Runnable deleting(String metric, long sinceMs) {
      return rows.deleting(metric, sinceMs);
    }
  }

  private final FakeKeyStore keys = new FakeKeyStore();
  private final QueryMetric query = new QueryMetric(5, 9, 0, "m");
  @TempDir Path folder;
  private long now = 1_000_000;
  private IndexedRows rows;
  private Deletes deletes;
  private IndexedRows othersRows;
  private Deletes other;

  @BeforeEach
  void make() {
    rows = new IndexedRows(null, () -> now, folder);
    othersRows = new IndexedRows(rows, () -> now, folder);
    deletes = new Deletes(new Queue(rows), keys, true, () -> now++, 1);
    other = new Deletes(new Queue(othersRows), keys, true, () -> now, 1);
  }

  @Test
  void whatAnotherNodeStoredAfterTheIndexWasDeletedIsFoundWithoutAnyMore() throws Exception {
    long deleted = othersRows.put("m", "quiet");
    othersRows.put("m", "s");
    now += 60_000;
    long[] last = new long[1];
    deletes.run(
        query,
        now,
        () -> {
          rows.deleteIndex();
          last[0] = othersRows.put("m", "s");
        });
    assertFalse(othersRows.finds("m", "s", last[0]), "its row was in the cache");
    now += 1_000;
    other.look();
    assertTrue(othersRows.finds("m", "s", last[0]));
    assertFalse(othersRows.finds("m", "quiet", deleted), "nothing came since");
    long later = othersRows.put("m", "quiet");
    assertTrue(othersRows.finds("m", "quiet", later), "its row was forgotten");
  }

  /** Longer than its node leaves what it has told the others. */
  @Test
  void aLongDeleteHidesNothingThatCameMeanwhile() throws Exception {
    othersRows.put("m", "s");
    long[] last = new long[1];
    deletes.run(
        query,
        now,
        () -> {
          now += 70_000;
          look(other);
          rows.deleteIndex();
          last[0] = othersRows.put("m", "s");
          now += 600_000;
        });
    deletes.look();
    now += 1_000;
    other.look();
    assertTrue(othersRows.finds("m", "s", last[0]));
  }

  private static void look(Deletes deletes) throws DatastoreException {
    try {
      deletes.look();
    } catch (InterruptedException error) {
      throw new IllegalStateException(error);
    }
  }

  /** Nor may one take away what the others have not read. */
  @Test
  void aNodeWhoseClockIsAheadReadsWhatOthersDelete() throws Exception {
    long aheadMs = 2 * 3_600_000;
    IndexedRows aheadRows = new IndexedRows(rows, () -> now + aheadMs, folder);
    Deletes ahead = new Deletes(new Queue(aheadRows), keys, true, () -> now + aheadMs, 1);
    othersRows.put("m", "s");
    aheadRows.put("m", "t");
    long[] last = new long[2];
    deletes.run(
        query,
        now,
        () -> {
          rows.deleteIndex();
          last[0] = othersRows.put("m", "s");
          last[1] = aheadRows.put("m", "t");
        });
    now += 1_000;
    ahead.look();
    other.look();
    assertTrue(othersRows.finds("m", "s", last[0]));
    assertTrue(aheadRows.finds("m", "t", last[1]));
  }

  /** Its index must be written later than it was deleted, and the news is gone by then. */
  @Test
  void whatANodeDeletedWhoseClockIsFarAheadIsNotForgotten() throws Exception {
    long aheadMs = 700_000;
    Deletes ahead = new Deletes(new Queue(rows), keys, true, () -> now++ + aheadMs, 1);
    othersRows.put("m", "s");
    ahead.run(query, now + aheadMs, rows::deleteIndex);
    other.look();
    now += 601_000;
    ahead.look();
    assertEquals(0, keys.values.size());
    other.look();
    assertFalse(othersRows.finds("m", "s", othersRows.put("m", "s")), "written again too early");
    now += 100_000;
    other.look();
    assertTrue(othersRows.finds("m", "s", othersRows.put("m", "s")), "its row was in the cache");
  }

  @Test
  void whatADeadNodeLeftIsTakenAwayInTheEnd() throws Exception {
    deletes.run(query, now, () -> {});
    now += 1_000;
    other.look();
    assertEquals(2, keys.values.size());
    now += 3_601_000;
    other.look();
    assertEquals(0, keys.values.size());
  }

  @Test
  void whatThisNodeStoredBeforeTheCachesWereEmptiedIsFoundWithoutAnyMore() throws Exception {
    long deleted = rows.put("m", "quiet");
    rows.put("m", "s");
    now += 60_000;
    long[] last = new long[3];
    deletes.run(
        query,
        now,
        () -> {
          rows.deleteIndex();
          last[0] = rows.put("m", "s");
          last[1] = rows.put("m", "t");
          rows.emptyCaches();
          last[2] = rows.put("m", "t");
        });
    assertTrue(rows.finds("m", "s", last[0]));
    assertTrue(rows.finds("m", "t", last[1]));
    assertTrue(rows.finds("m", "t", last[2]));
    assertFalse(rows.finds("m", "quiet", deleted), "nothing came since");
    assertTrue(rows.finds("m", "s", rows.put("m", "s")));
  }

  /** It may have deleted the index of rows, and not have come to the caches. */
  @Test
  void aDeleteThatFailsHalfWayLeavesNoRowAsKnown() {
    rows.put("m", "quiet");
    now += 60_000;
    try {
      deletes.run(
          query,
          now,
          () -> {
            rows.deleteIndex();
            throw new IllegalStateException("half way");
          });
    } catch (Exception expected) {
      // It is told to who asked for it.
    }
    assertTrue(rows.finds("m", "quiet", rows.put("m", "quiet")));
  }
}
