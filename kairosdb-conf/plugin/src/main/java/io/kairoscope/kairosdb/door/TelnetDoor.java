package io.kairoscope.kairosdb.door;

import io.kairoscope.kairosdb.queue.PointQueue;
import java.net.UnknownHostException;
import java.util.List;
import javax.inject.Inject;
import javax.inject.Named;
import org.jboss.netty.channel.Channel;
import org.jboss.netty.channel.ChannelHandlerContext;
import org.jboss.netty.channel.ChannelStateEvent;
import org.jboss.netty.channel.ExceptionEvent;
import org.jboss.netty.channel.MessageEvent;
import org.kairosdb.core.KairosDataPointFactory;
import org.kairosdb.core.queue.QueueProcessor;
import org.kairosdb.core.telnet.CommandProvider;
import org.kairosdb.core.telnet.TelnetCommand;
import org.kairosdb.core.telnet.TelnetServer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * KairosDB's telnet server, whose points go to the queue directly, by the rules of the REST door,
 * and whose refused lines are counted. KairosDB logs two lines for each, or a trace, and counts
 * none.
 *
 * <p>As there, nothing is answered to a line with a point, a bad one neither. It must not: a sender
 * of lines that never reads has an answer in its buffer when it closes its socket, and the
 * operating system then resets the connection, with which good lines that are still under way are lost.
 */
public final class TelnetDoor extends TelnetServer {
  private static final Logger logger = LoggerFactory.getLogger(TelnetDoor.class);
  private static final int SHOWN = 200;

  private final CommandProvider commands;
  private final DoorStats stats;
  private final ThreadLocal<TelnetPoints> points;
  private final OncePerSecond log = new OncePerSecond();

  @Inject
  public TelnetDoor(
      @Named("kairosdb.telnetserver.address") String address,
      @Named("kairosdb.telnetserver.port") int port,
      @Named("kairosdb.telnetserver.max_command_size") int maxCommandLength,
      CommandProvider commands,
      QueueProcessor queue,
      KairosDataPointFactory factories,
      DoorStats stats)
      throws UnknownHostException {
    super(address, port, maxCommandLength, commands);
    this.commands = commands;
    this.stats = stats;
    points = ThreadLocal.withInitial(() -> new TelnetPoints((PointQueue) queue, factories));
  }

  @Override
  public void messageReceived(ChannelHandlerContext context, MessageEvent event) {
    @SuppressWarnings("unchecked") // of the word splitter in KairosDB's pipeline
    List<String> line = (List<String>) event.getMessage();
    try {
      String name = line.isEmpty() ? "" : line.get(0);
      if (TelnetPoints.isCommand(name)) {
        points.get().put(line);
        stats.telnetPoints.increment();
        return;
      }
      TelnetCommand command = commands.getCommand(name);
      if (command == null) {
        throw new Refusal("unknown command");
      }
      command.execute(event.getChannel(), line);
      if (!event.getChannel().isWritable()) {
        // It asks and does not read: what it asks next waits, as answers would fill the memory.
        event.getChannel().setReadable(false);
      }
    } catch (Throwable error) {
      // Errors too: netty would log each with its trace.
      stats.telnetErrors.increment();
      log.run(before -> log(context, line, error, before));
    }
  }

  /** It reads again what it asked for. */
  @Override
  public void channelInterestChanged(ChannelHandlerContext context, ChannelStateEvent event) {
    Channel channel = context.getChannel();
    if (channel.isWritable() && !channel.isReadable()) {
      channel.setReadable(true);
    }
  }

  private void log(ChannelHandlerContext context, List<String> line, Throwable error, long before) {
    String shown = String.join(" ", line);
    logger.warn(
        "A telnet line from {} was not taken: {}: '{}' ({} more since the last such message)",
        context.getChannel().getRemoteAddress(),
        error instanceof Refusal ? error.getMessage() : error.toString(),
        shown.length() <= SHOWN ? shown : shown.substring(0, SHOWN) + "…",
        before);
  }

  /** A line that is too long, or a connection that broke. */
  @Override
  public void exceptionCaught(ChannelHandlerContext context, ExceptionEvent event) {
    stats.telnetErrors.increment();
    log.run(
        before ->
            logger.warn(
                "Telnet from {}: {} ({} more since the last such message)",
                context.getChannel().getRemoteAddress(),
                event.getCause().toString(),
                before));
  }
}
