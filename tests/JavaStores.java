import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.Key;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.util.Base64;
import javax.crypto.Cipher;
import javax.crypto.EncryptedPrivateKeyInfo;
import javax.crypto.SecretKey;
import javax.crypto.SecretKeyFactory;
import javax.crypto.spec.PBEKeySpec;

/**
 * Makes what only Java can, for the tests: FOLDER TRUST STORE KEY are a folder with ca.pem and
 * dora.p12, and the passwords of truststores, of dora's stores, and of her key.
 */
public final class JavaStores {
  // Kafka's clients on Java 17 open no key that is sealed in a newer way.
  private static final String SEAL = "PBEWithSHA1AndDESede";

  public static void main(String[] arguments) throws Exception {
    Path folder = Path.of(arguments[0]);
    char[] trust = arguments[1].toCharArray();
    char[] store = arguments[2].toCharArray();
    char[] password = arguments[3].toCharArray();

    Certificate authority;
    try (InputStream pem = Files.newInputStream(folder.resolve("ca.pem"))) {
      authority = CertificateFactory.getInstance("X.509").generateCertificate(pem);
    }
    for (String type : new String[] {"JKS", "PKCS12"}) {
      KeyStore truststore = empty(type);
      truststore.setCertificateEntry("ca", authority);
      write(truststore, folder.resolve("trust." + type.toLowerCase()), trust);
    }

    KeyStore own = KeyStore.getInstance("PKCS12");
    try (InputStream p12 = Files.newInputStream(folder.resolve("dora.p12"))) {
      own.load(p12, store);
    }
    Key key = own.getKey("dora", store);
    KeyStore jks = empty("JKS");
    jks.setKeyEntry("dora", key, password, own.getCertificateChain("dora"));
    write(jks, folder.resolve("dora.jks"), store);

    SecretKey seal = SecretKeyFactory.getInstance(SEAL).generateSecret(new PBEKeySpec(password));
    Cipher cipher = Cipher.getInstance(SEAL);
    cipher.init(Cipher.ENCRYPT_MODE, seal);
    byte[] sealed =
        new EncryptedPrivateKeyInfo(cipher.getParameters(), cipher.doFinal(key.getEncoded()))
            .getEncoded();
    String lines = Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(sealed);
    String label = "ENCRYPTED PRIVATE KEY-----\n";
    Files.writeString(
        folder.resolve("dora.key"), "-----BEGIN " + label + lines + "\n-----END " + label);
  }

  private static KeyStore empty(String type) throws Exception {
    KeyStore store = KeyStore.getInstance(type);
    store.load(null, null);
    return store;
  }

  private static void write(KeyStore store, Path file, char[] password) throws Exception {
    try (OutputStream out = Files.newOutputStream(file)) {
      store.store(out, password);
    }
  }
}
