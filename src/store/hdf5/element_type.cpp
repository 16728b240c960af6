#include "store/hdf5/element_type.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr int most_nesting = 16;

/// Where the bits of a machine's number are: no others are a 'f' here.
struct FloatForm {
  std::size_t bytes, exponent_bits, mantissa_bits;
};
constexpr std::array<FloatForm, 4> float_forms{{{2, 5, 10}, {4, 8, 23}, {8, 11, 52}, {16, 15, 64}}};

class TypeReader {
 public:
  TypeReader(const Hdf5Call& hdf5, const std::string& place) : hdf5_(hdf5), place_(place) {}

  ElementLayout layout_of(hid_t type, int nesting = 0) const {
    if (nesting > most_nesting) {
      refuse("types within types, deeper than " + std::to_string(most_nesting));
    }
    ElementLayout layout;
    layout.bytes = hdf5_->H5Tget_size(type);
    layout.kind = 'V';
    switch (hdf5_->H5Tget_class(type)) {
      case H5T_INTEGER:
        layout.kind = !has_all_bits(type) ? 'V' : hdf5_->H5Tget_sign(type) == H5T_SGN_NONE ? 'u' : 'i';
        break;
      case H5T_BITFIELD:
        layout.kind = has_all_bits(type) ? 'u' : 'V';
        break;
      case H5T_FLOAT:
        layout.kind = is_machine_float(type) ? 'f' : 'V';
        break;
      case H5T_ENUM:
        return enumeration(type, nesting);
      case H5T_STRING:
        if (hdf5_->H5Tis_variable_str(type) != 0) {
          refuse("strings of any length");
        }
        layout.kind = 'S';
        break;
      case H5T_COMPOUND:
        return fields(type, nesting);
      case H5T_ARRAY:
        return array(type, nesting);
      case H5T_VLEN:
        refuse("sequences of any length");
      case H5T_REFERENCE:
        refuse("references");
      default:
        break;
    }
    const H5T_order_t order = hdf5_->H5Tget_order(type);
    layout.swapped = layout.bytes > 1 && order != H5T_ORDER_LE && order != H5T_ORDER_NONE;
    return named(std::move(layout));
  }

 private:
  [[noreturn]] void refuse(const std::string& elements) const {
    throw StoreError(ENOTSUP, place_ + " holds " + elements +
                                  ", which are not where the dataset is: write numbers or text of a fixed length");
  }

  static ElementLayout named(ElementLayout layout) {
    layout.type = std::string(layout.bytes == 1 ? "|"
                              : layout.swapped  ? ">"
                                                : "<") +
                  layout.kind + std::to_string(layout.bytes);
    return layout;
  }

  bool has_all_bits(hid_t type) const {
    return hdf5_->H5Tget_offset(type) == 0 && hdf5_->H5Tget_precision(type) == 8 * hdf5_->H5Tget_size(type);
  }

  bool is_machine_float(hid_t type) const {
    std::size_t sign = 0;
    std::size_t exponent = 0;
    std::size_t exponent_bits = 0;
    std::size_t mantissa = 0;
    std::size_t mantissa_bits = 0;
    if (hdf5_->H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits) < 0) {
      return false;
    }
    const std::size_t bytes = hdf5_->H5Tget_size(type);
    return hdf5_->H5Tget_offset(type) == 0 && mantissa == 0 && exponent == mantissa_bits &&
           sign == exponent + exponent_bits &&
           hdf5_->H5Tget_ebias(type) == (std::size_t{1} << (exponent_bits - 1)) - 1 &&
           std::any_of(float_forms.begin(), float_forms.end(), [&](const FloatForm& form) {
             return form.bytes == bytes && form.exponent_bits == exponent_bits && form.mantissa_bits == mantissa_bits;
           });
  }

  std::string member_name(hid_t type, unsigned member) const {
    char* const text = hdf5_->H5Tget_member_name(type, member);
    const std::string name = text == nullptr ? "" : text;
    hdf5_->H5free_memory(text);
    return name;
  }

  /// h5py's and PyTables' booleans are enumerations of two names.
  ElementLayout enumeration(hid_t type, int nesting) const {
    const Hdf5Id base(hdf5_, hdf5_->H5Tget_super(type));
    ElementLayout layout = layout_of(base.get(), nesting + 1);
    if (layout.bytes == 1 && hdf5_->H5Tget_nmembers(type) == 2 && member_name(type, 0) == "FALSE" &&
        member_name(type, 1) == "TRUE") {
      std::array<char, 2> values = {1, 0};
      hdf5_->H5Tget_member_value(type, 0, &values[0]);
      hdf5_->H5Tget_member_value(type, 1, &values[1]);
      layout.kind = values[0] == 0 && values[1] == 1 ? 'b' : layout.kind;
    }
    return named(std::move(layout));
  }

  ElementLayout fields(hid_t type, int nesting) const {
    ElementLayout layout;
    layout.bytes = hdf5_->H5Tget_size(type);
    layout.type = "fields";
    const int members = hdf5_->H5Tget_nmembers(type);
    bool of_floats = members == 2;
    for (int member = 0; member < members; ++member) {
      const auto number = static_cast<unsigned>(member);
      const Hdf5Id part(hdf5_, hdf5_->H5Tget_member_type(type, number));
      const ElementLayout part_layout = layout_of(part.get(), nesting + 1);
      layout.swapped = layout.swapped || part_layout.swapped;
      of_floats = of_floats && part_layout.kind == 'f' && 2 * part_layout.bytes == layout.bytes &&
                  member_name(type, number) == (member == 0 ? "r" : "i");
    }
    if (of_floats) {  // What h5py makes of complex numbers.
      layout.kind = 'c';
      return named(std::move(layout));
    }
    return layout;
  }

  /// As a part of something: so many bytes of its items.
  ElementLayout array(hid_t type, int nesting) const {
    const Hdf5Id base(hdf5_, hdf5_->H5Tget_super(type));
    ElementLayout layout = layout_of(base.get(), nesting + 1);
    layout.bytes = hdf5_->H5Tget_size(type);
    layout.kind = '\0';
    layout.type = "arrays";
    return layout;
  }

  const Hdf5Call& hdf5_;
  const std::string& place_;
};

}  // namespace

Hdf5ElementType hdf5_element_type(const Hdf5Call& hdf5, hid_t type, const std::string& place) {
  const TypeReader reader(hdf5, place);
  Hdf5ElementType found;
  if (hdf5->H5Tget_class(type) != H5T_ARRAY) {
    found.layout = reader.layout_of(type);
    return found;
  }
  const int dimensions = hdf5->H5Tget_array_ndims(type);
  std::array<hsize_t, H5S_MAX_RANK> extents = {};
  hdf5->H5Tget_array_dims2(type, extents.data());
  found.subarray.assign(extents.begin(), extents.begin() + std::clamp(dimensions, 0, H5S_MAX_RANK));
  const Hdf5Id base(hdf5, hdf5->H5Tget_super(type));
  found.layout = reader.layout_of(base.get());
  return found;
}

}  // namespace tiermap
