import io.kairoscope.kairosdb.queue.QueueTool;

/** What waits in each queue that is given, by one process: one for each would take minutes. */
public class EachQueue {
  public static void main(String[] folders) {
    for (String folder : folders) {
      System.out.println("# " + folder);
      System.out.flush();
      QueueTool.main(new String[] {"inspect", folder});
      QueueTool.main(new String[] {"export", folder});
    }
  }
}
