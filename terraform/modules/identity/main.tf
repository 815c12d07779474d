locals {
  roles = toset(["storage", "kairosdb", "loader", "monitoring"])

  # What each role may do in the bucket. None may delete a version, so 30 days of them cannot be lost from a host.
  bucket = {
    storage    = { prefix = "backups", list = true, actions = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"] }
    loader     = { prefix = "results", list = false, actions = ["s3:PutObject", "s3:AbortMultipartUpload"] }
    monitoring = { prefix = "results", list = true, actions = ["s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"] }
  }
}

resource "aws_iam_role" "host" {
  for_each = local.roles

  name                 = "${var.prefix}-${each.key}"
  description          = "Hosts of ${var.prefix}: ${each.key}"
  permissions_boundary = var.boundary

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "ec2.amazonaws.com" }
    }]
  })

  tags = { Name = "${var.prefix}-${each.key}" }
}

resource "aws_iam_instance_profile" "host" {
  for_each = local.roles

  name = aws_iam_role.host[each.key].name
  role = aws_iam_role.host[each.key].name

  tags = { Name = "${var.prefix}-${each.key}" }
}

resource "aws_iam_role_policy" "bucket" {
  for_each = local.bucket

  name = "bucket"
  role = aws_iam_role.host[each.key].id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [{
        Effect   = "Allow"
        Action   = each.value.actions
        Resource = "${var.bucket_arn}/${each.value.prefix}/*"
      }],
      [for action in ["s3:ListBucket"] : {
        Effect    = "Allow"
        Action    = action
        Resource  = var.bucket_arn
        Condition = { StringLike = { "s3:prefix" = "${each.value.prefix}/*" } }
      } if each.value.list],
    )
  })
}

# What sessions need and no more: the managed policy AmazonSSMManagedInstanceCore lets a host read every
# parameter of the account.
resource "aws_iam_role_policy" "ssm" {
  # checkov:skip=CKV_AWS_290: AWS takes no narrower resource than * for these actions
  # checkov:skip=CKV_AWS_355: AWS takes no narrower resource than * for these actions
  for_each = var.ssm ? local.roles : []

  name = "ssm"
  role = aws_iam_role.host[each.key].id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect = "Allow"
      Action = [
        "ssm:UpdateInstanceInformation",
        "ssmmessages:CreateControlChannel",
        "ssmmessages:CreateDataChannel",
        "ssmmessages:OpenControlChannel",
        "ssmmessages:OpenDataChannel",
      ]
      Resource = "*"
    }]
  })
}
