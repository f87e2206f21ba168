package io.github.eolistener.requests;

import io.github.eolistener.protocol.CallArguments;
import io.github.eolistener.protocol.ErrorClasses;
import io.github.eolistener.protocol.RefusedException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.Key;
import java.security.KeyStore;
import java.security.KeyStoreException;
import java.security.PrivateKey;
import java.security.UnrecoverableKeyException;
import java.security.cert.Certificate;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Reads a Java key store as PEM, in memory only.
 *
 * <p>{@code {"location","type","password","keyPassword","use"}} gives {@code
 * {"certificates","key"}}. All but {@code location} may be left out: {@code type} is JKS then, as
 * it is for Kafka's clients, and {@code keyPassword} the password. {@code "use":"trust"} gives the
 * certificates that Java would trust, and no key; {@code "use":"key"} the one private key (PKCS #8)
 * and its chain, leaf first. Without it, "key" is meant where the store has a private key.
 */
final class KeyStoreReader {
  private static final long MAX_BYTES = 16L << 20; // no store of certificates comes near
  private static final Base64.Encoder BASE64 =
      Base64.getMimeEncoder(64, "\n".getBytes(StandardCharsets.US_ASCII));

  private final String name;
  private final KeyStore store;

  private KeyStoreReader(String name, KeyStore store) {
    this.name = name;
    this.store = store;
  }

  static Map<String, Object> pem(CallArguments arguments) {
    String location = arguments.text("location");
    char[] password = arguments.find("password").map(String::toCharArray).orElse(null);
    String use = arguments.find("use").orElse("");
    String type = arguments.find("type").orElse("JKS");
    KeyStoreReader reader =
        new KeyStoreReader("key store " + location, open(location, type, password));
    try {
      if (use.equals("trust")) {
        return reader.trusted(password);
      }
      List<String> keys = reader.privateKeys();
      if (keys.isEmpty() && !use.equals("key")) {
        return reader.trusted(password);
      }
      return reader.identity(
          keys, arguments.find("keyPassword").map(String::toCharArray).orElse(password));
    } catch (UnrecoverableKeyException wrong) {
      throw reader.refusal("the password of its key is wrong (keyPassword, else password)");
    } catch (GeneralSecurityException unreadable) {
      throw reader.refusal("cannot be read: " + ErrorClasses.of(unreadable));
    }
  }

  private static KeyStore open(String location, String type, char[] password) {
    String name = "key store " + location;
    try (InputStream stream = Files.newInputStream(file(location))) {
      KeyStore store = KeyStore.getInstance(type);
      store.load(stream, password);
      return store;
    } catch (KeyStoreException unknown) {
      throw new RefusedException(name + ": this JVM does not support the store type " + type);
    } catch (IOException | GeneralSecurityException unreadable) {
      throw new RefusedException(
          name
              + (unreadable.getCause() instanceof UnrecoverableKeyException
                  ? ": its password is wrong"
                  : ": cannot be read; damaged, not of type " + type + ", or its password is wrong")
              + " (" + ErrorClasses.of(unreadable) + ")");
    }
  }

  private static Path file(String location) throws IOException {
    Path file;
    try {
      file = Path.of(location);
    } catch (InvalidPathException bad) {
      throw new RefusedException("key store " + location + ": not a valid path");
    }
    if (!Files.exists(file)) {
      throw new RefusedException(
          "key store " + location + ": no such file on the driver's machine");
    }
    if (!Files.isRegularFile(file) || !Files.isReadable(file)) {
      throw new RefusedException(
          "key store " + location + ": not a file that Spark's user may read");
    }
    if (Files.size(file) > MAX_BYTES) {
      throw new RefusedException("key store " + location + ": larger than 16 MiB");
    }
    return file;
  }

  private List<String> aliases() throws KeyStoreException {
    List<String> aliases = Collections.list(store.aliases());
    Collections.sort(aliases);
    return aliases;
  }

  /** Aliases of private keys; a store may also hold secret keys, which have no certificates. */
  private List<String> privateKeys() throws KeyStoreException {
    List<String> found = new ArrayList<>();
    for (String alias : aliases()) {
      if (store.isKeyEntry(alias) && store.getCertificateChain(alias) != null) {
        found.add(alias);
      }
    }
    return found;
  }

  /** What Java's trust manager trusts: all certificates, and the first of each key's chain. */
  private Map<String, Object> trusted(char[] password) throws GeneralSecurityException {
    Set<Certificate> trusted = new LinkedHashSet<>();
    for (String alias : aliases()) {
      Certificate certificate = store.getCertificate(alias);
      if (certificate != null) {
        trusted.add(certificate);
      }
    }
    if (trusted.isEmpty()) {
      throw refusal(
          "holds no certificate"
              + (password == null ? ", or none that can be read without its password" : ""));
    }
    return texts(trusted, null);
  }

  private Map<String, Object> identity(List<String> keys, char[] password)
      throws GeneralSecurityException {
    if (keys.size() != 1) {
      throw refusal(
          keys.isEmpty()
              ? "holds no private key"
              : "holds several private keys (" + String.join(", ", keys)
                  + "). Fix: give a store with one private key");
    }
    Key key = store.getKey(keys.get(0), password == null ? new char[0] : password);
    if (!(key instanceof PrivateKey) || key.getEncoded() == null) {
      throw refusal("does not let its private key be read");
    }
    return texts(List.of(store.getCertificateChain(keys.get(0))), key);
  }

  private static Map<String, Object> texts(Iterable<Certificate> certificates, Key key)
      throws GeneralSecurityException {
    StringBuilder text = new StringBuilder();
    for (Certificate certificate : certificates) {
      text.append(block("CERTIFICATE", certificate.getEncoded()));
    }
    Map<String, Object> texts = new LinkedHashMap<>();
    texts.put("certificates", text.toString());
    texts.put("key", key == null ? null : block("PRIVATE KEY", key.getEncoded()));
    return texts;
  }

  private static String block(String label, byte[] content) {
    String lines = BASE64.encodeToString(content);
    return "-----BEGIN " + label + "-----\n" + lines + "\n-----END " + label + "-----\n";
  }

  private RefusedException refusal(String problem) {
    return new RefusedException(name + ": " + problem);
  }
}
