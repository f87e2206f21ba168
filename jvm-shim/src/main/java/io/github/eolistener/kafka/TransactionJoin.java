package io.github.eolistener.kafka;

import io.github.eolistener.protocol.RefusedException;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.util.Arrays;
import java.util.Optional;
import org.apache.kafka.clients.producer.KafkaProducer;

/**
 * Puts a new producer into a transaction that another producer has begun, in its epoch.
 *
 * <p>Kafka has no public way to it: two members of its {@code TransactionManager} are set. Such a
 * producer must send to partitions that no other one of the epoch sends to, since each begins with
 * sequence number 0; and it must be closed with a time-out of zero, since any other close aborts
 * the transaction of all.
 */
final class TransactionJoin {
  private static final String INTERNALS = "org.apache.kafka.clients.producer.internals.";
  private static final String MANAGER = INTERNALS + "TransactionManager";
  private static final String EPOCH = "org.apache.kafka.common.utils.ProducerIdAndEpoch";
  private static final String JOINED = "IN_TRANSACTION";

  private final Field manager;
  private final Field producer;
  private final Field state;
  private final Constructor<?> epoch;
  private final Object joined;

  /**
   * Finds the members.
   *
   * @throws ReflectiveOperationException where kafka-clients does not have them
   */
  private TransactionJoin(String managerName) throws ReflectiveOperationException {
    ClassLoader loader = KafkaProducer.class.getClassLoader();
    Class<?> managers = Class.forName(managerName, true, loader);
    Class<?> epochs = Class.forName(EPOCH, true, loader);
    manager = accessible(KafkaProducer.class, "transactionManager", managers);
    producer = accessible(managers, "producerIdAndEpoch", epochs);
    state = accessible(managers, "currentState", null);
    epoch = epochs.getConstructor(long.class, short.class);
    joined =
        Optional.ofNullable(state.getType().getEnumConstants()).stream()
            .flatMap(Arrays::stream)
            .filter(one -> one.toString().equals(JOINED))
            .findFirst()
            .orElseThrow(() -> new NoSuchFieldException(state.getType().getName() + "." + JOINED));
  }

  /** Why this kafka-clients has no producers that join; empty where it has. */
  static Optional<String> missing() {
    return missing(MANAGER);
  }

  static Optional<String> missing(String managerName) {
    try {
      new TransactionJoin(managerName);
      return Optional.empty();
    } catch (ReflectiveOperationException | RuntimeException absent) {
      return Optional.of(absent.getClass().getSimpleName() + ": " + absent.getMessage());
    }
  }

  /** Lets {@code client}, which is new and has the transactional id, take part in the epoch. */
  static void join(KafkaProducer<byte[], byte[]> client, long producerId, int producerEpoch) {
    try {
      TransactionJoin members = new TransactionJoin(MANAGER);
      Object managed = members.manager.get(client);
      members.producer.set(managed, members.epoch.newInstance(producerId, (short) producerEpoch));
      members.state.set(managed, members.joined);
    } catch (ReflectiveOperationException | RuntimeException absent) {
      throw new RefusedException(
          "a producer of this version of kafka-clients cannot join a transaction: "
              + absent.getClass().getSimpleName());
    }
  }

  private static Field accessible(Class<?> owner, String name, Class<?> type)
      throws NoSuchFieldException {
    Field found = owner.getDeclaredField(name);
    if (type != null && found.getType() != type) {
      throw new NoSuchFieldException(owner.getName() + "." + name + " of " + type.getName());
    }
    found.setAccessible(true);
    return found;
  }
}
