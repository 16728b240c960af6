import java.nio.LongBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;

/** The sum of words of a file, picked by chance through a MappedByteBuffer. Arguments: the file, how many words. */
public class GathersWithJava {
  public static void main(String[] arguments) throws Exception {
    try (FileChannel channel = FileChannel.open(Path.of(arguments[0]))) {
      LongBuffer words = channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size()).asLongBuffer();
      long chosen = 7;
      long sum = 0;
      for (int left = Integer.parseInt(arguments[1]); left > 0; --left) {
        chosen = chosen * 6364136223846793005L + 1442695040888963407L;
        sum += words.get((int) Long.remainderUnsigned(chosen >>> 11, words.limit()));
      }
      System.out.println(sum);
    }
  }
}
