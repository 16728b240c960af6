import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** MappedByteBuffers and channel writes of one file. Argument: the file. */
public class MapsWithJava {
  public static void main(String[] arguments) throws Exception {
    Path path = Path.of(arguments[0]);
    final int bytes = 8 << 20;
    try (FileChannel channel =
        FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
      MappedByteBuffer written = channel.map(FileChannel.MapMode.READ_WRITE, 0, bytes);
      for (int at = 0; at < bytes; at += 8) {
        written.putLong(at, at * 31L);
      }
      written.force();
      ByteBuffer word = ByteBuffer.allocate(8);
      channel.read(word, 4096);
      System.out.println(word.flip().getLong());
      word.clear();
      channel.write(word.putLong(42).flip(), 8000);
      System.out.println(written.getLong(8000));
      MappedByteBuffer read = channel.map(FileChannel.MapMode.READ_ONLY, 4096, bytes / 2);
      long sum = 0;
      for (int at = 0; at < bytes / 2; at += 8) {
        sum += read.getLong(at);
      }
      System.out.println(sum);
    }
  }
}
