# Which zones, and whether they and the instance types fit: asked of AWS when the plan is made, so that
# what cannot be is refused before anything is created.

data "aws_availability_zones" "region" {
  # checkov:skip=CKV_AWS_394: which zones are used is kept in the state (terraform_data.zones), or named
  state = "available"

  # Not local zones: they have neither all services nor NAT gateways.
  filter {
    name   = "zone-type"
    values = ["availability-zone"]
  }
}

data "aws_ec2_instance_type_offerings" "zones" {
  location_type = "availability-zone"

  filter {
    name   = "instance-type"
    values = local.types
  }
}

# Only of types that there are: of others AWS says no more than that.
data "aws_ec2_instance_type" "known" {
  for_each = setintersection(local.types, data.aws_ec2_instance_type_offerings.zones.instance_types)

  instance_type = each.value
}

# Those that were never Nitro have local disks that are not NVMe, and other names for them.
data "aws_ec2_instance_types" "local_nvme" {
  filter {
    name   = "instance-type"
    values = local.types
  }

  filter {
    name   = "instance-storage-info.nvme-support"
    values = ["required", "supported"]
  }
}

locals {
  types     = toset(values(var.instance_types))
  storage   = var.instance_types["storage"]
  offerings = data.aws_ec2_instance_type_offerings.zones
  known     = data.aws_ec2_instance_type.known

  # Zone => types that it offers. A map is in the order of its keys.
  offered = {
    for zone in data.aws_availability_zones.region.names :
    zone => toset([for i, location in local.offerings.locations : local.offerings.instance_types[i] if location == zone])
  }
  suitable = [for zone, types in local.offered : zone if length(setsubtract(local.types, types)) == 0]

  unknown = [for role, type in var.instance_types : "${type} (${role})" if !contains(local.offerings.instance_types, type)]
  # The other checks are of no use before this one holds.
  complete = length(local.unknown) == 0
  not_x86 = [
    for role, type in var.instance_types : "${type} (${role})"
    if contains(keys(local.known), type) && !contains(try(local.known[type].supported_architectures, []), "x86_64")
  ]
  # For people: "i3.8xlarge in a, b; m5.2xlarge in a".
  where_offered = join("; ", [
    for type in local.types :
    "${type} in ${join(", ", [for zone, types in local.offered : zone if contains(types, type)])}"
  ])

  zones = length(var.zones) > 0 ? var.zones : slice(terraform_data.zones.output, 0, var.zone_count)
}

# The zones chosen at the first deploy. They are kept in the state: if AWS came to offer a type in an
# earlier zone, choosing anew would move every node there, which is to replace it.
resource "terraform_data" "zones" {
  input = length(var.zones) > 0 ? var.zones : local.suitable

  lifecycle {
    ignore_changes = [input]

    precondition {
      condition     = length(local.unknown) == 0
      error_message = "Region ${var.region} has no instance type ${join(", ", local.unknown)}. Choose another type in the experiment (section aws), or another region."
    }

    precondition {
      condition     = length(setsubtract(var.zones, keys(local.offered))) == 0
      error_message = "zones: region ${var.region} has no zone ${join(", ", setsubtract(var.zones, keys(local.offered)))}. It has ${join(", ", keys(local.offered))}."
    }

    precondition {
      condition     = !local.complete || length(setsubtract(setintersection(var.zones, keys(local.offered)), local.suitable)) == 0
      error_message = "zones [${join(", ", var.zones)}] do not offer all instance types: ${local.where_offered}. Choose other zones or other types."
    }

    precondition {
      condition     = !local.complete || length(local.suitable) >= var.zone_count
      error_message = "Region ${var.region} has ${length(local.suitable)} zones that offer all instance types, and storage_zones = ${var.zone_count} needs as many: ${local.where_offered}. Choose other types, another region, or fewer zones."
    }

    precondition {
      condition     = length(local.not_x86) == 0
      error_message = "Not for x86_64, for which the images are: ${join(", ", local.not_x86)}. Choose another type in the experiment (section aws), such as i4i for storage and m6i for the rest."
    }

    precondition {
      condition     = !local.complete || contains(data.aws_ec2_instance_types.local_nvme.instance_types, local.storage)
      error_message = "${local.storage} has no local NVMe disks, on which a storage node keeps its data. Choose a type with them, such as i3, i4i or i3en, in the experiment (section aws)."
    }

    precondition {
      condition     = !local.complete || var.zone_count > 1 || contains(try(local.known[local.storage].supported_placement_strategies, []), "cluster")
      error_message = "${local.storage} cannot be in a cluster placement group, which storage_zones = 1 asks for. Choose another type in the experiment (section aws), or storage_zones = 3."
    }

    precondition {
      condition     = !local.complete || try(local.known[var.instance_types["kairosdb"]].ebs_nvme_support, "") == "required"
      error_message = "${var.instance_types["kairosdb"]} (kairosdb) is not of the Nitro system, where the queue's volume has a name that can be known. Choose a newer type, such as m5 or m6i, in the experiment (section aws)."
    }

    # At the first deploy this says what the preconditions say; later, the zones are those of then.
    postcondition {
      condition = !local.complete || length(var.zones) > 0 || (
        length(self.output) >= var.zone_count &&
        length(setsubtract(slice(self.output, 0, min(var.zone_count, length(self.output))), local.suitable)) == 0
      )
      error_message = "The deployment is in ${join(", ", slice(self.output, 0, min(var.zone_count, length(self.output))))}, and not all of these offer all instance types now, or they are fewer than storage_zones = ${var.zone_count}: ${local.where_offered}. Choose other types, or destroy and deploy anew."
    }
  }
}
