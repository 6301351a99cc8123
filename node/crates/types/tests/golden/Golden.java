// Prints what Cassandra 5.0.5 makes of values of its types. Recipe (LIB: the jars of cassandra-all 5.0.5 and its dependencies):
//   java -cp "$LIB/*" Golden.java > values.txt
// Lines: `T java-name|cql-name|fixed-length`, then per value `V hex|literal|json|byte-comparable|reversed`, then
// `C` and the signs of comparing each value with each, row by row; `K hex token byte-comparable-key` for partition keys.
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.cql3.Duration;
import org.apache.cassandra.db.marshal.*;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.serializers.CollectionSerializer;
import org.apache.cassandra.transport.ProtocolVersion;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.bytecomparable.*;

public class Golden
{
    static final Random random = new Random(505);
    static final int VALUES = 12;
    static final String P = "org.apache.cassandra.db.marshal.";
    static final String[] SIMPLE = { "AsciiType", "LongType", "BytesType", "BooleanType", "SimpleDateType", "DecimalType", "DoubleType",
        "DurationType", "FloatType", "InetAddressType", "Int32Type", "ShortType", "UTF8Type", "TimeType", "TimestampType",
        "TimeUUIDType", "ByteType", "UUIDType", "IntegerType" };
    static final Map<String, String[]> EDGES = Map.ofEntries(
        Map.entry("LongType", new String[] { "0", "1", "-1", "63", "64", "-64", "-65", "8191", "8192", "9223372036854775807", "-9223372036854775808" }),
        Map.entry("DecimalType", new String[] { "0", "0.00", "1", "1.0", "-1", "0.1", "-0.1", "10", "-12.345", "1E+20", "1E-20", "-1E+20", "99", "100",
            "-99.5", "-100", "12345678901234567890.123", "-0.0001", "1E-1000", "0.001", "-10000", "0E+10", "1.23E-7", "0.00000123" }),
        Map.entry("DoubleType", new String[] { "0.0", "-0.0", "1.5", "-1.5", "NaN", "Infinity", "-Infinity", "1E7", "9999999", "0.001", "0.0001", "1E-300", "123456789.125", "100" }),
        Map.entry("FloatType", new String[] { "0.0", "-0.0", "1.5", "-1.5", "NaN", "Infinity", "-Infinity", "1E7", "9999999", "0.001", "0.0001", "1.1", "3.4028235E38" }),
        Map.entry("Int32Type", new String[] { "0", "1", "-1", "2147483647", "-2147483648" }),
        Map.entry("IntegerType", new String[] { "0", "1", "-1", "127", "128", "-128", "-129", "255", "256", "281474976710655", "281474976710656",
            "-281474976710656", "-281474976710657", "72057594037927935", "72057594037927936", "1" + "0".repeat(40), "-1" + "0".repeat(40), "-72057594037927937" }),
        Map.entry("InetAddressType", new String[] { "127.0.0.1", "255.0.0.1", "::1", "2001:db8::1:0:ff" }),
        Map.entry("DurationType", new String[] { "1y2mo3w4d5h6m7s8ms9us10ns", "-1d", "0s", "P1Y", "2mo" }),
        Map.entry("SimpleDateType", new String[] { "1970-01-01", "1969-12-31", "0", "4294967295", "2024-02-29", "-0044-03-15", "+12345-06-07" }),
        Map.entry("TimeType", new String[] { "00:00:00", "23:59:59.999999999", "08:12:54.123" }),
        Map.entry("TimestampType", new String[] { "0", "-1", "2011-02-03 04:05:00+0000", "2011-02-03T04:05:06.789Z", "-62135596800001" }),
        Map.entry("UTF8Type", new String[] { "", "a", "ab", "it's", "\"quoted\"\n\t\\ \u00e9\u0001", "\0", "\0\0", "a\0", "a\0b" }),
        Map.entry("BooleanType", new String[] { "true", "false" }));

    static ByteBuffer value(AbstractType<?> t)
    {
        byte[] bytes;
        if (t instanceof ListType) return collection(((ListType<?>) t).getElementsType(), null);
        if (t instanceof SetType) return collection(((SetType<?>) t).getElementsType(), null);
        if (t instanceof MapType) return collection(((MapType<?, ?>) t).getKeysType(), ((MapType<?, ?>) t).getValuesType());
        if (t instanceof TupleType)
        {
            TupleType tuple = (TupleType) t;
            ByteBuffer[] fields = new ByteBuffer[random.nextInt(4) == 0 ? random.nextInt(tuple.size()) + 1 : tuple.size()];
            for (int i = 0; i < fields.length; i++)
                fields[i] = random.nextInt(4) == 0 ? null : value(tuple.type(i));
            return TupleType.buildValue(fields);
        }
        if (t instanceof VectorType)
        {
            VectorType<?> vector = (VectorType<?>) t;
            List<ByteBuffer> elements = new ArrayList<>();
            for (int i = 0; i < vector.dimension; i++)
                elements.add(value(vector.elementType));
            return vector.decomposeRaw(elements);
        }
        String name = t.getClass().getSimpleName();
        switch (name)
        {
            case "AsciiType": return ByteBufferUtil.bytes(letters());
            case "UTF8Type": return ByteBufferUtil.bytes(letters());
            case "BooleanType": return ByteBuffer.wrap(new byte[] { (byte) random.nextInt(2) });
            case "DecimalType": return DecimalType.instance.decompose(new java.math.BigDecimal(new java.math.BigInteger(random.nextInt(90), random).subtract(java.math.BigInteger.valueOf(1L << 40)), random.nextInt(40) - 20));
            case "IntegerType": return IntegerType.instance.decompose(new java.math.BigInteger(random.nextInt(150), random).subtract(java.math.BigInteger.valueOf(random.nextLong() >> random.nextInt(64))));
            case "DoubleType": return ByteBufferUtil.bytes(random.nextGaussian() * Math.pow(10, random.nextInt(20) - 10));
            case "FloatType": return ByteBufferUtil.bytes((float) (random.nextGaussian() * Math.pow(10, random.nextInt(20) - 10)));
            case "DurationType": return DurationType.instance.decompose(Duration.newInstance(random.nextInt(100), random.nextInt(1000), random.nextInt(1000000)));
            case "SimpleDateType": return ByteBufferUtil.bytes(random.nextInt(40000) + Integer.MIN_VALUE);
            case "TimeType": return ByteBufferUtil.bytes((random.nextLong() >>> 1) % 86400000000000L);
            case "TimestampType": return ByteBufferUtil.bytes(random.nextLong() % 4000000000000L);
            case "LongType": return ByteBufferUtil.bytes(random.nextLong() >> random.nextInt(64));
            case "Int32Type": return ByteBufferUtil.bytes(random.nextInt() >> random.nextInt(32));
            case "InetAddressType": bytes = new byte[random.nextBoolean() ? 4 : 16]; break;
            case "TimeUUIDType": case "UUIDType": bytes = new byte[16]; break;
            case "ShortType": bytes = new byte[2]; break;
            case "ByteType": bytes = new byte[1]; break;
            default: bytes = new byte[random.nextInt(6)];
        }
        random.nextBytes(bytes);
        if (name.equals("TimeUUIDType") || (name.equals("UUIDType") && random.nextBoolean()))
            bytes[6] = (byte) (0x10 | bytes[6] & 0x0f);
        if (bytes.length > 1 && name.equals("BytesType"))
            bytes[random.nextInt(bytes.length)] = 0;
        return ByteBuffer.wrap(bytes);
    }

    static String letters()
    {
        StringBuilder sb = new StringBuilder();
        for (int i = random.nextInt(5); i > 0; i--)
            sb.append((char) ('a' + random.nextInt(3)));
        return sb.toString();
    }

    static ByteBuffer collection(AbstractType<?> keys, AbstractType<?> values)
    {
        List<ByteBuffer> parts = new ArrayList<>();
        int count = random.nextInt(4);
        for (int i = 0; i < count; i++)
        {
            parts.add(value(keys));
            if (values != null) parts.add(value(values));
        }
        return CollectionSerializer.pack(parts, count);
    }

    static String hex(ByteSource source)
    {
        return source == null ? "null" : ByteBufferUtil.bytesToHex(ByteBuffer.wrap(ByteSourceInverse.readBytes(source)));
    }

    static String escape(String s)
    {
        StringBuilder sb = new StringBuilder();
        for (byte b : s.getBytes(StandardCharsets.UTF_8))
            if (b > ' ' && b != '%' && b != '|') sb.append((char) b); else sb.append(String.format("%%%02x", b));
        return sb.toString();
    }

    static void print(AbstractType<?> t)
    {
        System.out.println("T " + t + "|" + t.asCQL3Type() + "|" + t.valueLengthIfFixed());
        List<ByteBuffer> values = new ArrayList<>();
        if (t.allowsEmpty()) values.add(ByteBufferUtil.EMPTY_BYTE_BUFFER);
        for (String text : EDGES.getOrDefault(t.getClass().getSimpleName(), new String[0]))
            values.add(t.fromString(text));
        while (values.size() < VALUES || (EDGES.containsKey(t.getClass().getSimpleName()) && values.size() < 20)) values.add(value(t));
        AbstractType<?> reversed = ReversedType.getInstance(t);
        for (ByteBuffer v : values)
        {
            t.validate(v);
            String json;
            try { json = escape(t.toJSONString(v, ProtocolVersion.V5)); } catch (RuntimeException e) { json = "-"; }
            System.out.println("V " + ByteBufferUtil.bytesToHex(v) + "|" + escape(t.asCQL3Type().toCQLLiteral(v)) + "|" + json + "|"
                               + hex(t.asComparableBytes(v, ByteComparable.Version.OSS50)) + "|" + hex(reversed.asComparableBytes(v, ByteComparable.Version.OSS50)));
        }
        StringBuilder signs = new StringBuilder("C ");
        for (ByteBuffer a : values)
            for (ByteBuffer b : values)
                signs.append("<=>".charAt(1 + Integer.signum(t.compare(a, b))));
        System.out.println(signs);
    }

    public static void main(String[] args)
    {
        DatabaseDescriptor.clientInitialization();
        List<String> names = new ArrayList<>();
        for (String simple : SIMPLE) names.add(P + simple);
        String addr = "UserType(ks,61646472,737472656574:" + P + "UTF8Type,7a6970:" + P + "Int32Type,506c616365:" + P + "FrozenType(" + P + "ListType(" + P + "DecimalType)))";
        for (String s : new String[] { "FrozenType(ListType(Int32Type))", "FrozenType(SetType(UTF8Type))", "FrozenType(MapType(UTF8Type,Int32Type))",
            "FrozenType(MapType(Int32Type,ListType(UUIDType)))", "TupleType(Int32Type,UTF8Type,TimeUUIDType)", "TupleType(TupleType(BytesType),IntegerType)",
            "FrozenType(" + addr + ")", "VectorType(FloatType , 3)", "VectorType(UTF8Type , 2)", "VectorType(SimpleDateType , 2)", "VectorType(VectorType(Int32Type , 2) , 2)",
            "VectorType(FrozenType(ListType(UTF8Type)) , 2)", "FrozenType(ListType(FrozenType(SetType(BytesType))))", "FrozenType(ListType(InetAddressType))",
            "FrozenType(ListType(TupleType(DoubleType,BooleanType)))" })
            names.add(s);
        for (String name : names) print(TypeParser.parse(name));
        for (String name : new String[] { "ListType(Int32Type)", "ListType(ListType(Int32Type))", "MapType(UTF8Type,FrozenType(SetType(Int32Type)))", addr,
            "ListType(TupleType(Int32Type,ListType(UTF8Type)))", "SetType(" + addr + ")", "ReversedType(UUIDType)", "EmptyType", "CounterColumnType",
            "ReversedType(FrozenType(ListType(Int32Type)))", "FrozenType(ListType(ListType(SetType(Int32Type))))", "CompositeType(Int32Type,UTF8Type)" })
            System.out.println("N " + name + "|" + TypeParser.parse(name) + "|" + TypeParser.parse(name).asCQL3Type());
        Murmur3Partitioner partitioner = Murmur3Partitioner.instance;
        for (int length = 0; length <= 40; length++)
            for (int i = 0; i < (length == 0 ? 1 : 4); i++)
            {
                byte[] key = new byte[length];
                random.nextBytes(key);
                if (i == 1) Arrays.fill(key, (byte) 0xff);
                if (i == 2) for (int j = 0; j < length; j++) key[j] |= (byte) 0x80;
                ByteBuffer buffer = ByteBuffer.wrap(key);
                System.out.println("K " + ByteBufferUtil.bytesToHex(buffer) + " " + partitioner.getToken(buffer) + " "
                                   + (length == 0 ? "-" : hex(partitioner.decorateKey(buffer).asComparableBytes(ByteComparable.Version.OSS50))));
            }
        System.exit(0);
    }
}
