package io.github.eolistener.requests;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.Key;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class KeyStoreReaderTest {
  private static final String PASSWORD = "hunter2-store";
  private static final String OTHER = "hunter2-key";

  @TempDir static Path folder;
  private static Key key;
  private static Certificate[] chain; // leaf, authority
  private static Key otherKey;
  private static Certificate[] otherChain;

  @BeforeAll
  static void make() throws Exception {
    keytool("-genkeypair", "-alias", "ca", "-dname", "CN=ca", "-ext", "bc:c");
    keytool("-genkeypair", "-alias", "leaf", "-dname", "CN=leaf", "-signer", "ca");
    KeyStore store = KeyStore.getInstance("PKCS12");
    try (var stream = Files.newInputStream(folder.resolve("keytool.p12"))) {
      store.load(stream, PASSWORD.toCharArray());
    }
    key = store.getKey("leaf", PASSWORD.toCharArray());
    chain = store.getCertificateChain("leaf");
    otherKey = store.getKey("ca", PASSWORD.toCharArray());
    otherChain = store.getCertificateChain("ca");
    assertEquals(2, chain.length);
  }

  private static void keytool(String... arguments) throws Exception {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "keytool").toString());
    command.addAll(List.of(arguments));
    command.addAll(List.of("-keyalg", "EC", "-storetype", "PKCS12", "-storepass", PASSWORD));
    command.addAll(List.of("-keystore", folder.resolve("keytool.p12").toString()));
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, process.waitFor(), output);
  }

  /** Fills a store. */
  private interface Filling {
    void into(KeyStore store) throws Exception;
  }

  private static ObjectNode store(String name, String type, Filling filling) throws Exception {
    KeyStore store = KeyStore.getInstance(type);
    store.load(null, null);
    filling.into(store);
    Path file = folder.resolve(name);
    try (OutputStream stream = Files.newOutputStream(file)) {
      store.store(stream, PASSWORD.toCharArray());
    }
    return argument(file, PASSWORD).put("type", type);
  }

  private static ObjectNode argument(Path file, String password) {
    return new ObjectMapper()
        .createObjectNode()
        .put("location", file.toString())
        .put("password", password);
  }

  private static JsonNode pem(ObjectNode argument) throws IOException {
    return new ObjectMapper().readTree(ShimCalls.call("stores.pem", argument.toString()));
  }

  private static String refused(ObjectNode argument) {
    String message =
        assertThrows(
                IllegalStateException.class,
                () -> ShimCalls.call("stores.pem", argument.toString()))
            .getMessage();
    assertFalse(message.contains("hunter2"), message);
    return message;
  }

  private static List<Certificate> certificates(JsonNode answer) throws Exception {
    byte[] text = answer.get("certificates").asText().getBytes(StandardCharsets.US_ASCII);
    return List.copyOf(
        CertificateFactory.getInstance("X.509")
            .generateCertificates(new ByteArrayInputStream(text)));
  }

  @ParameterizedTest
  @DisplayName("A store with one private key gives that key and its chain, leaf first")
  @ValueSource(strings = {"JKS", "PKCS12"})
  void identity(String type) throws Exception {
    JsonNode answer =
        pem(
            store(
                "identity." + type,
                type,
                store -> {
                  store.setKeyEntry("leaf", key, PASSWORD.toCharArray(), chain);
                  store.setCertificateEntry("another", otherChain[0]);
                }));
    assertEquals(List.of(chain), certificates(answer));
    String text = answer.get("key").asText();
    assertTrue(text.startsWith("-----BEGIN PRIVATE KEY-----\n"), "its first line");
    byte[] bytes = Base64.getMimeDecoder().decode(text.replaceAll("-----[A-Z ]+-----", ""));
    Key read = KeyFactory.getInstance("EC").generatePrivate(new PKCS8EncodedKeySpec(bytes));
    assertArrayEquals(key.getEncoded(), read.getEncoded());
  }

  @ParameterizedTest
  @DisplayName("A store without a key gives all trusted certificates, and no key")
  @ValueSource(strings = {"JKS", "PKCS12"})
  void trusted(String type) throws Exception {
    JsonNode answer =
        pem(
            store(
                "trusted." + type,
                type,
                store -> {
                  store.setCertificateEntry("b", chain[0]);
                  store.setCertificateEntry("a", chain[1]);
                }));
    assertEquals(List.of(chain[1], chain[0]), certificates(answer));
    assertTrue(answer.get("key").isNull());
  }

  @Test
  @DisplayName("A store used for trust does not give its private key")
  void trustOnly() throws Exception {
    ObjectNode both =
        store(
            "both",
            "PKCS12",
            store -> {
              store.setKeyEntry("leaf", key, PASSWORD.toCharArray(), chain);
              store.setCertificateEntry("ca", chain[1]);
            });
    JsonNode answer = pem(both.put("use", "trust"));
    assertEquals(List.of(chain[1], chain[0]), certificates(answer));
    assertTrue(answer.get("key").isNull());
  }

  @Test
  @DisplayName("A key with its own password needs that password")
  void keyPassword() throws Exception {
    ObjectNode own =
        store("own", "JKS", s -> s.setKeyEntry("leaf", key, OTHER.toCharArray(), chain));
    assertTrue(refused(own).contains("the password of its key is wrong"));
    assertFalse(pem(own.put("keyPassword", OTHER)).get("key").isNull());
  }

  @Test
  @DisplayName("Several private keys are refused by name: none is guessed")
  void several() throws Exception {
    String message =
        refused(
            store(
                "several",
                "JKS",
                store -> {
                  store.setKeyEntry("one", key, PASSWORD.toCharArray(), chain);
                  store.setKeyEntry("two", otherKey, PASSWORD.toCharArray(), otherChain);
                }));
    assertTrue(message.contains("several private keys (one, two)"), message);
  }

  @ParameterizedTest
  @DisplayName("A store that is empty, or lacks what it is used for, is reported as such")
  @CsvSource({"JKS,,no certificate", "PKCS12,trust,no certificate", "JKS,key,no private key"})
  void empty(String type, String use, String problem) throws Exception {
    String message = refused(store("empty." + type + use, type, s -> {}).put("use", use));
    assertTrue(message.contains(problem), message);
  }

  @ParameterizedTest
  @DisplayName("A wrong password is reported as such")
  @ValueSource(strings = {"JKS", "PKCS12"})
  void wrongPassword(String type) throws Exception {
    ObjectNode one =
        store("wrong." + type, type, s -> s.setCertificateEntry("ca", otherChain[0]));
    assertTrue(refused(one.put("password", "hunter2-wrong")).contains("password is wrong"));
  }

  @Test
  @DisplayName("Without its password a PKCS12 store shows no certificate, and the error says so")
  void noPassword() throws Exception {
    ObjectNode one = store("bare", "PKCS12", s -> s.setCertificateEntry("ca", otherChain[0]));
    one.remove("password");
    assertTrue(refused(one).contains("without its password"), refused(one));
  }

  @Test
  @DisplayName("A damaged store, an unknown type and a bad path have errors of their own")
  void noStore() throws Exception {
    Path damaged = Files.writeString(folder.resolve("damaged"), "-----BEGIN CERTIFICATE-----");
    assertTrue(refused(argument(damaged, PASSWORD)).contains("damaged, not of type JKS"));
    assertTrue(refused(argument(damaged, PASSWORD).put("type", "XYZ")).contains("type XYZ"));
    assertTrue(refused(argument(folder, PASSWORD)).contains("not a file that"));
    assertTrue(refused(argument(folder.resolve("none"), PASSWORD)).contains("no such file"));
    assertTrue(refused(argument(folder, "").put("location", "a\0b")).contains("not a valid path"));
    try (var large = new java.io.RandomAccessFile(folder.resolve("large").toFile(), "rw")) {
      large.setLength(1L << 30);
    }
    assertTrue(refused(argument(folder.resolve("large"), PASSWORD)).contains("larger than"));
  }
}
