import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/**
 * Writes lines to a topic: {@code Produce producer.properties orders}.
 *
 * <p>A line is printed when it was acknowledged. What was not printed when the process ends is to
 * be given to the next one: it may have been written or not, so this is at least once.
 */
public final class Produce {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (Reader file = Files.newBufferedReader(Path.of(arguments[0]))) {
            settings.load(file);
        }
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            String line;
            while ((line = lines.readLine()) != null) {
                write(producer, arguments[1], line);
            }
        }
    }

    private static void write(KafkaProducer<String, String> producer, String topic, String line) {
        producer.send(
                new ProducerRecord<>(topic, line),
                (RecordMetadata written, Exception failure) -> {
                    if (failure != null) {
                        System.err.println(line + ": " + failure);
                        Runtime.getRuntime().halt(OneCluster.START_AGAIN);
                    }
                    System.out.println(line);
                });
    }
}
