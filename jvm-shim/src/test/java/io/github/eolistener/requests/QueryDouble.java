package io.github.eolistener.requests;

import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/** The methods of Spark's StreamExecution that the inspector calls. */
public final class QueryDouble {
  static final UUID ID = UUID.fromString("11111111-1111-1111-1111-111111111111");
  static final UUID RUN_ID = UUID.fromString("22222222-2222-2222-2222-222222222222");

  private final String name;
  private final Seq sources;
  private final Plan logicalPlan;
  private final Plan analyzedPlan;

  QueryDouble(String name, List<?> sources, List<?> planned, List<?> analyzed) {
    this.name = name;
    this.sources = sources == null ? null : new Seq(sources);
    this.logicalPlan = new Plan(planned);
    this.analyzedPlan = new Plan(analyzed);
  }

  public UUID id() {
    return ID;
  }

  public UUID runId() {
    return RUN_ID;
  }

  public String name() {
    return name;
  }

  public Seq sources() {
    return sources;
  }

  public Plan logicalPlan() {
    if (sources == null) {
      throw new AssertionError("a lazy value was read before the query's own thread computed it");
    }
    return logicalPlan;
  }

  public Plan analyzedPlan() {
    return analyzedPlan;
  }

  /** As Spark's StreamingQueryWrapper. */
  public static final class Wrapper {
    private final QueryDouble query;

    Wrapper(QueryDouble query) {
      this.query = query;
    }

    public QueryDouble streamingQuery() {
      return query;
    }
  }

  /** As Spark's LogicalPlan. */
  public static final class Plan {
    private final Seq leaves;

    Plan(List<?> leaves) {
      this.leaves = new Seq(leaves);
    }

    public Seq collectLeaves() {
      return leaves;
    }
  }

  /** As Scala's Seq, whose iterator is of a class that is not public. */
  public static final class Seq {
    private final List<?> elements;

    Seq(List<?> elements) {
      this.elements = elements;
    }

    public Object iterator() {
      Iterator<?> over = elements.iterator();
      return new Object() {
        @SuppressWarnings("unused") // called by name
        public boolean hasNext() {
          return over.hasNext();
        }

        @SuppressWarnings("unused") // called by name
        public Object next() {
          return over.next();
        }
      };
    }
  }

  /** As StreamingRelationV2: the analyzed leaf of every version. */
  public static final class Analyzed {
    private final Map<String, String> options;

    Analyzed(Map<String, String> options) {
      this.options = options;
    }

    public Map<String, String> extraOptions() {
      return options;
    }
  }

  /** As Spark 3.5's planned leaf, which has its stream only. */
  public static final class PlannedBefore4 {
    private final Object stream;

    PlannedBefore4(Object stream) {
      this.stream = stream;
    }

    public Object stream() {
      return stream;
    }
  }

  /** As Spark 4's planned leaf, which also has its relation. */
  public static final class Planned {
    private final Object stream;
    private final Relation relation;

    Planned(Object stream, Map<String, String> options) {
      this.stream = stream;
      this.relation = new Relation(options);
    }

    public Object stream() {
      return stream;
    }

    public Relation relation() {
      return relation;
    }
  }

  /** As StreamingDataSourceV2Relation of Spark 4. */
  public static final class Relation {
    private final Map<String, String> options;

    Relation(Map<String, String> options) {
      this.options = options;
    }

    public Map<String, String> options() {
      if (options.containsKey("broken")) {
        throw new IllegalArgumentException("cannot use " + options);
      }
      return options;
    }
  }

  /**
   * As the leaf of a source that is read through the old interface (StreamingExecutionRelation).
   */
  public static final class PlannedV1 {
    private final Object source;

    PlannedV1(Object source) {
      this.source = source;
    }

    public Object source() {
      return source;
    }
  }

  /** As the leaf of a static table. */
  public static final class Static {}
}
