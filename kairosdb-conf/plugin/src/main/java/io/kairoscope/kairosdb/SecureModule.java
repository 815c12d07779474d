package io.kairoscope.kairosdb;

import com.google.inject.AbstractModule;
import com.google.inject.util.Modules;
import java.io.IOException;
import java.security.GeneralSecurityException;
import javax.net.ssl.SSLContext;
import org.kairosdb.core.KairosRootConfig;
import org.kairosdb.core.http.WebServer;
import org.kairosdb.core.http.WebServletModule;

/**
 * KairosDB's REST interface over HTTPS only, and its connections to the store with a certificate.
 * Takes the place of WebServletModule as {@code kairosdb.service.http}.
 *
 * <p>KairosDB can do both by itself, but its HTTPS port listens on all addresses of the host, and
 * the store's certificate goes by system properties: with a password that then stands in the JVM's
 * arguments, which are in every crash report.
 */
public class SecureModule extends AbstractModule {
  private final KairosRootConfig config;

  public SecureModule(KairosRootConfig config) throws IOException, GeneralSecurityException {
    this.config = config;
    // Modules are made before anything connects. The driver takes the default context. With Netty
    // 4.0 it waited for ever in a handshake of TLS 1.3; with 4.1 that has not been tried.
    SSLContext.setDefault(Pem.context(config, "TLSv1.2"));
  }

  @Override
  protected void configure() {
    install(Modules.override(new WebServletModule(config)).with(new Server()));
  }

  private static class Server extends AbstractModule {
    @Override
    protected void configure() {
      try {
        // Not to(…): that would be a second binding of a service, and so a second start.
        bind(WebServer.class)
            .toConstructor(
                SecureWebServer.class.getConstructor(
                    String.class, int.class, String.class, int.class, KairosRootConfig.class));
      } catch (NoSuchMethodException error) {
        addError(error);
      }
    }
  }
}
