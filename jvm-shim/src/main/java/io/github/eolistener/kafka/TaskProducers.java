package io.github.eolistener.kafka;

import io.github.eolistener.protocol.CallArguments;
import java.io.Serializable;
import org.apache.kafka.clients.producer.KafkaProducer;

/** How the producers of a batch's tasks are opened; the tasks are told by this. */
public interface TaskProducers extends Serializable {
  /**
   * {@code {"properties":{}}}, and with {@code "transactionalId","producerId","epoch"} those of a
   * transaction that they join.
   */
  static TaskProducers of(CallArguments arguments) {
    return arguments.find("transactionalId").isPresent()
        ? JoinedTransaction.of(arguments)
        : IdempotentProducers.of(arguments);
  }

  /** Opens one; the name is that of the client. */
  KafkaProducer<byte[], byte[]> open(String name);
}
