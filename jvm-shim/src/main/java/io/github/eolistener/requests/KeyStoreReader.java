package io.github.eolistener;

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
 * A key store of Java as PEM texts, in memory only.
 *
 * <p>{@code {"location","type","password","keyPassword","use"}} gives {@code
 * {"certificates","key"}}. All but {@code location} may be left out: {@code type} is JKS then, as
 * it is for Kafka's clients, and {@code keyPassword} the password. With {@code "use":"trust"} come
 * the certificates that Java would trust, and no key; with {@code "use":"key"} the one private key
 * (PKCS #8) and its chain, leaf first. Without it a store that has a private key is for the key.
 */
final class KeyStores {
  private static final long LARGEST = 16L << 20; // bytes; no store of certificates comes near
  private static final Base64.Encoder BASE64 =
      Base64.getMimeEncoder(64, "\n".getBytes(StandardCharsets.US_ASCII));

  private final String name;
  private final KeyStore store;

  private KeyStores(String name, KeyStore store) {
    this.name = name;
    this.store = store;
  }

  static Map<String, Object> pem(Argument argument) {
    String location = argument.text("location");
    char[] password = argument.find("password").map(String::toCharArray).orElse(null);
    String use = argument.find("use").orElse("");
    String type = argument.find("type").orElse("JKS");
    KeyStores opened = new KeyStores("key store " + location, open(location, type, password));
    try {
      if (use.equals("trust")) {
        return opened.trusted(password);
      }
      List<String> keys = opened.privateKeys();
      if (keys.isEmpty() && !use.equals("key")) {
        return opened.trusted(password);
      }
      return opened.identity(
          keys, argument.find("keyPassword").map(String::toCharArray).orElse(password));
    } catch (UnrecoverableKeyException wrong) {
      throw opened.refusal("the password of its key is wrong (keyPassword, else password)");
    } catch (GeneralSecurityException unreadable) {
      throw opened.refusal("cannot be read: " + Failure.classes(unreadable));
    }
  }

  private static KeyStore open(String location, String type, char[] password) {
    String name = "key store " + location;
    try (InputStream stream = Files.newInputStream(file(location))) {
      KeyStore store = KeyStore.getInstance(type);
      store.load(stream, password);
      return store;
    } catch (KeyStoreException unknown) {
      throw new Refusal(name + ": this JVM knows no stores of the type " + type);
    } catch (IOException | GeneralSecurityException unreadable) {
      throw new Refusal(
          name
              + (unreadable.getCause() instanceof UnrecoverableKeyException
                  ? ": its password is wrong"
                  : ": cannot be read; it is damaged, or no " + type + ", or its password is wrong")
              + " (" + Failure.classes(unreadable) + ")");
    }
  }

  private static Path file(String location) throws IOException {
    Path file;
    try {
      file = Path.of(location);
    } catch (InvalidPathException bad) {
      throw new Refusal("key store " + location + ": this is no path");
    }
    if (!Files.exists(file)) {
      throw new Refusal("key store " + location + ": there is no such file where the driver runs");
    }
    if (!Files.isRegularFile(file) || !Files.isReadable(file)) {
      throw new Refusal("key store " + location + ": is no file that Spark's user may read");
    }
    if (Files.size(file) > LARGEST) {
      throw new Refusal("key store " + location + ": is too large to be one");
    }
    return file;
  }

  private List<String> aliases() throws KeyStoreException {
    List<String> aliases = Collections.list(store.aliases());
    Collections.sort(aliases);
    return aliases;
  }

  /** Aliases of private keys; a store may hold secret keys as well, which have no certificates. */
  private List<String> privateKeys() throws KeyStoreException {
    List<String> found = new ArrayList<>();
    for (String alias : aliases()) {
      if (store.isKeyEntry(alias) && store.getCertificateChain(alias) != null) {
        found.add(alias);
      }
    }
    return found;
  }

  /** As Java's trust manager takes them: all certificates, and the first of each key's chain. */
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
              + (password == null ? ", or shows none without its password" : ""));
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
                  + "); which is meant cannot be said: give a store with one");
    }
    Key key = store.getKey(keys.get(0), password == null ? new char[0] : password);
    if (!(key instanceof PrivateKey) || key.getEncoded() == null) {
      throw refusal("does not give its private key away");
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

  private Refusal refusal(String problem) {
    return new Refusal(name + ": " + problem);
  }
}
