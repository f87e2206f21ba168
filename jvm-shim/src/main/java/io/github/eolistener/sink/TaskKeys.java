package io.github.eolistener.sink;

import org.apache.spark.sql.api.java.UDF2;
import org.apache.spark.unsafe.hash.Murmur3_x86_32;

/**
 * Numbers that Spark's shuffle brings to one task each, to all of them: it distributes rows by a
 * hash of a column. Another hash would distribute them less evenly; rows of one number stay
 * together in any case.
 */
final class TaskKeys implements UDF2<Integer, Long, Integer> {
  private static final long serialVersionUID = 1L;
  private static final int SEED = 42; // of Spark's HashPartitioning

  private final int[] keys;

  TaskKeys(int tasks) {
    keys = new int[tasks];
    boolean[] found = new boolean[tasks];
    int left = tasks;
    for (int key = 0; left > 0; key++) {
      int task = Math.floorMod(Murmur3_x86_32.hashInt(key, SEED), tasks);
      if (!found[task]) {
        found[task] = true;
        keys[task] = key;
        left--;
      }
    }
  }

  /** How many tasks there are. */
  int tasks() {
    return keys.length;
  }

  /** The number by which Spark's shuffle brings a row to that task. */
  int key(int task) {
    return keys[task];
  }

  /** The task of a row by its partition; one that has none may go to any. */
  static int task(int target, long place, int tasks) {
    return target >= 0 ? target % tasks : Math.floorMod(place, tasks);
  }

  @Override
  public Integer call(Integer target, Long place) {
    return keys[task(target, place, keys.length)];
  }
}
