import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.ClusterResource;
import org.apache.kafka.common.ClusterResourceListener;
import org.apache.kafka.common.TopicPartition;

/**
 * Ends the process when its bootstrap servers lead to another cluster than before.
 *
 * <p>A client that moves keeps what it knew: a consumer its positions, an idempotent producer its
 * producer id and sequence numbers. All of that belongs to the cluster it came from. Kafka tells
 * this listener the id of the cluster with each answer to a metadata request, before the client
 * fetches from the new cluster or writes to it. Whoever supervises the process starts it again,
 * with the group's offsets and a producer id of the new cluster.
 */
public final class OneCluster
        implements ClusterResourceListener,
                ConsumerInterceptor<Object, Object>,
                ProducerInterceptor<Object, Object> {
    /** "Temporary failure, try again" of sysexits.h. */
    static final int START_AGAIN = 75;

    private volatile String first;

    @Override
    public void onUpdate(ClusterResource cluster) {
        String id = cluster.clusterId();
        if (first == null) {
            first = id;
        } else if (id != null && !id.equals(first)) {
            System.err.println("the bootstrap servers lead from cluster " + first + " to " + id);
            // Not exit: a shutdown hook that flushes or commits would do so on the new cluster.
            Runtime.getRuntime().halt(START_AGAIN);
        }
    }

    @Override
    public ConsumerRecords<Object, Object> onConsume(ConsumerRecords<Object, Object> records) {
        return records;
    }

    @Override
    public ProducerRecord<Object, Object> onSend(ProducerRecord<Object, Object> record) {
        return record;
    }

    @Override
    public void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {}

    @Override
    public void onAcknowledgement(RecordMetadata written, Exception failure) {}

    @Override
    public void configure(Map<String, ?> settings) {}

    @Override
    public void close() {}
}
