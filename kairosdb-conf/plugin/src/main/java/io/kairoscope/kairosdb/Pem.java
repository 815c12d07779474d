package io.kairoscope.kairosdb;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.Collection;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.kairosdb.core.KairosRootConfig;

/** TLS from PEM files, so that no key store and no password for one is needed. */
final class Pem {
  private static final String KEYS = "kairosdb.kairoscope.tls.";

  // Of a store that never leaves memory.
  private static final char[] NO_PASSWORD = new char[0];

  private Pem() {}

  /**
   * A context of the newest {@code protocol} it is to speak, with the EC key (PKCS #8) and
   * certificate that the configuration names; it trusts the CAs there and no other.
   */
  static SSLContext context(KairosRootConfig config, String protocol)
      throws IOException, GeneralSecurityException {
    Path key = Path.of(config.getString(KEYS + "key"));
    Path certificate = Path.of(config.getString(KEYS + "certificate"));
    Path ca = Path.of(config.getString(KEYS + "ca"));
    KeyStore own = KeyStore.getInstance(KeyStore.getDefaultType());
    own.load(null, null);
    String text = Files.readString(key).replaceAll("-----[^-]+-----", "");
    byte[] der = Base64.getMimeDecoder().decode(text);
    own.setKeyEntry(
        "own",
        KeyFactory.getInstance("EC").generatePrivate(new PKCS8EncodedKeySpec(der)),
        NO_PASSWORD,
        certificates(certificate).toArray(new Certificate[0]));
    KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
    keys.init(own, NO_PASSWORD);

    KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
    trusted.load(null, null);
    for (Certificate each : certificates(ca)) {
      trusted.setCertificateEntry("ca-" + trusted.size(), each);
    }
    TrustManagerFactory trust =
        TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(trusted);

    SSLContext context = SSLContext.getInstance(protocol);
    context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
    return context;
  }

  private static Collection<? extends Certificate> certificates(Path file)
      throws IOException, GeneralSecurityException {
    try (InputStream in = Files.newInputStream(file)) {
      return CertificateFactory.getInstance("X.509").generateCertificates(in);
    }
  }
}
