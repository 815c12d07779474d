package io.kairoscope.kairosdb;

import com.google.inject.Inject;
import com.google.inject.name.Named;
import com.google.inject.servlet.GuiceFilter;
import java.io.IOException;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.Set;
import javax.servlet.ServletException;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.HttpConfiguration;
import org.eclipse.jetty.server.HttpConnectionFactory;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.SecureRequestCustomizer;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.server.SslConnectionFactory;
import org.eclipse.jetty.server.handler.ErrorHandler;
import org.eclipse.jetty.server.handler.HandlerWrapper;
import org.eclipse.jetty.server.handler.gzip.GzipHandler;
import org.eclipse.jetty.servlet.DefaultServlet;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.util.ssl.SslContextFactory;
import org.kairosdb.core.KairosRootConfig;
import org.kairosdb.core.exception.KairosDBException;
import org.kairosdb.core.http.WebServer;

/** The REST interface over HTTPS, at {@code kairosdb.jetty.address} and {@code .port} alone. */
public class SecureWebServer extends WebServer {
  private static final String CREDENTIALS = "kairosdb.kairoscope.rest.credentials_sha256";

  // What a load balancer asks; it knows no password. Whole paths as they came, so that no spelling
  // of another one passes for them.
  private static final Set<String> OPEN = Set.of("/api/v1/health/check", "/api/v1/health/status");

  private final String address;
  private final int port;
  private final int idleTimeoutMs;
  private final byte[] credentials;
  private final KairosRootConfig config;
  private Server server;

  @Inject
  public SecureWebServer(
      @Named(JETTY_ADDRESS_PROPERTY) String address,
      @Named(JETTY_PORT_PROPERTY) int port,
      @Named(JETTY_WEB_ROOT_PROPERTY) String webRoot,
      @Named(JETTY_SOCKET_IDLE_TIMEOUT) int idleTimeoutMs,
      KairosRootConfig config)
      throws UnknownHostException {
    super(address, port, webRoot, idleTimeoutMs);
    this.address = address;
    this.port = port;
    this.idleTimeoutMs = idleTimeoutMs;
    this.config = config;
    credentials =
        config.hasPath(CREDENTIALS)
            ? HexFormat.of().parseHex(config.getString(CREDENTIALS))
            : null;
  }

  @Override
  public void start() throws KairosDBException {
    try {
      server = new Server();
      server.addBean(new ErrorHandler()); // shows no stack traces
      server.addConnector(connector());
      ServletContextHandler api = new ServletContextHandler();
      api.addFilter(GuiceFilter.class, "/api/*", null);
      api.addServlet(DefaultServlet.class, "/api/*");
      GzipHandler gzip = new GzipHandler();
      gzip.setIncludedMimeTypes("application/json");
      gzip.addIncludedMethods("GET", "POST");
      gzip.setHandler(api);
      server.setHandler(credentials == null ? gzip : new Guard(gzip, credentials));
      server.start();
    } catch (Exception error) {
      throw new KairosDBException(error);
    }
  }

  private ServerConnector connector() throws IOException, GeneralSecurityException {
    SslContextFactory.Server tls = new SslContextFactory.Server();
    tls.setSslContext(Pem.context(config, "TLSv1.3"));
    tls.setIncludeProtocols("TLSv1.3", "TLSv1.2");
    HttpConfiguration http = new HttpConfiguration();
    http.setSendServerVersion(false);
    // Clients come by address, by name and through forwards: one certificate serves all.
    http.addCustomizer(new SecureRequestCustomizer(false));
    ServerConnector connector =
        new ServerConnector(
            server, new SslConnectionFactory(tls, "http/1.1"), new HttpConnectionFactory(http));
    connector.setHost(address);
    connector.setPort(port);
    connector.setIdleTimeout(idleTimeoutMs);
    return connector;
  }

  @Override
  public void stop() {
    try {
      if (server != null) {
        server.stop();
        server.join();
      }
    } catch (Exception error) {
      logger.error("Error stopping web server", error);
    }
  }

  /** Lets requests with the right Basic authentication pass; KairosDB's hosts know only its hash. */
  private static class Guard extends HandlerWrapper {
    private static final String BASIC = "basic ";

    private final byte[] credentials;

    Guard(Handler inner, byte[] credentials) {
      this.credentials = credentials;
      setHandler(inner);
    }

    @Override
    public void handle(
        String target, Request base, HttpServletRequest request, HttpServletResponse response)
        throws IOException, ServletException {
      if (OPEN.contains(request.getRequestURI()) || right(request.getHeader("Authorization"))) {
        super.handle(target, base, request, response);
        return;
      }
      response.setHeader("WWW-Authenticate", "Basic realm=\"KairosDB\"");
      response.sendError(HttpServletResponse.SC_UNAUTHORIZED);
      base.setHandled(true);
    }

    private boolean right(String header) {
      if (header == null || !header.regionMatches(true, 0, BASIC, 0, BASIC.length())) {
        return false;
      }
      byte[] given = header.substring(BASIC.length()).trim().getBytes(StandardCharsets.US_ASCII);
      try {
        // Equal hashes are compared in constant time; a fast hash will do for a random password.
        return MessageDigest.isEqual(
            credentials, MessageDigest.getInstance("SHA-256").digest(given));
      } catch (NoSuchAlgorithmException error) {
        throw new IllegalStateException(error);
      }
    }
  }
}
